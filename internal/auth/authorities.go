package auth

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"time"
)

// Authorities are certificate authorities to trust.
type Authorities struct {
	Pool *x509.CertPool
	raw  map[string]bool // by their DER
}

// ParseAuthorities reads a PEM file of certificates.
func ParseAuthorities(content []byte) (*Authorities, error) {
	found := &Authorities{Pool: x509.NewCertPool(), raw: map[string]bool{}}
	for rest := content; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		found.Pool.AddCert(certificate)
		found.raw[string(certificate.Raw)] = true
	}
	if len(found.raw) == 0 {
		return nil, errors.New("holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)")
	}
	return found, nil
}

// StillTrust reports whether a certificate that a handshake has verified would be
// verified now: it has not expired since, and its authority is one still. Without
// that a connection that was open before would outlive both.
func (a *Authorities) StillTrust(chains [][]*x509.Certificate) bool {
	now := time.Now()
	for _, chain := range chains {
		good := len(chain) > 0 && a.raw[string(chain[len(chain)-1].Raw)]
		for _, certificate := range chain {
			good = good && !now.After(certificate.NotAfter)
		}
		if good {
			return true
		}
	}
	return a.verify(chains)
}

// verify looks for a chain that the handshake has not made: to an authority whose own
// certificate was renewed, or to one that was added.
func (a *Authorities) verify(chains [][]*x509.Certificate) bool {
	if len(chains) == 0 || len(chains[0]) == 0 {
		return false
	}
	between := x509.NewCertPool()
	for _, chain := range chains {
		for _, certificate := range chain[1:] {
			between.AddCert(certificate)
		}
	}
	_, err := chains[0][0].Verify(x509.VerifyOptions{
		Roots: a.Pool, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err == nil
}
