//go:build linux

package servertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// writeKeys puts into dir what an API server needs to be trusted: a certificate of its own
// (apiserver.crt, apiserver.key; it is its own authority), the key that service accounts' tokens
// are signed with (accounts.key), and the administrator's token (tokens.csv), which it returns.
func writeKeys(dir string) (token string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kube-apiserver"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return "", err
	}
	accounts, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return "", err
	}
	token = rand.Text()
	return token, errors.Join(
		os.WriteFile(filepath.Join(dir, "apiserver.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600),
		writePrivateKey(filepath.Join(dir, "apiserver.key"), key),
		writePrivateKey(filepath.Join(dir, "accounts.key"), accounts),
		os.WriteFile(filepath.Join(dir, "tokens.csv"), fmt.Appendf(nil, "%s,admin,admin,system:masters\n", token), 0o600),
	)
}

func writePrivateKey(file string, key any) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}
