package brokerauth

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"

	"github.com/coordsvc/coordsvc/internal/config"
	"github.com/coordsvc/coordsvc/internal/reload"
)

// TLS returns what a new connection is secured with, or nil where TLS is off.
func TLS(settings config.KafkaTLS, logger *slog.Logger) (func() *tls.Config, error) {
	if !settings.Enabled {
		return nil, nil
	}
	ca := reload.File{Setting: "kafka.tls.ca-file", Path: settings.CAFile}
	cert := reload.File{Setting: "kafka.tls.cert-file", Path: settings.CertFile}
	key := reload.File{Setting: "kafka.tls.key-file", Path: settings.KeyFile}
	var files []reload.File
	for _, file := range []reload.File{ca, cert, key} {
		if file.Path != "" {
			files = append(files, file)
		}
	}
	parse := func(contents [][]byte) (*tls.Config, error) {
		made := &tls.Config{
			ServerName:         settings.ServerName,
			InsecureSkipVerify: settings.InsecureSkipVerify, //nolint:gosec // asked for, and warned of
		}
		if ca.Path != "" {
			made.RootCAs = x509.NewCertPool()
			if !made.RootCAs.AppendCertsFromPEM(contents[0]) {
				return nil, &reload.Error{File: ca, Err: errors.New("it holds no certificate in PEM form")}
			}
			contents = contents[1:]
		}
		if cert.Path != "" {
			pair, err := keyPair(cert, key, contents[0], contents[1])
			if err != nil {
				return nil, err
			}
			made.Certificates = []tls.Certificate{pair}
		}
		return made, nil
	}
	value, err := reload.Load(files, parse)
	if err != nil {
		return nil, err
	}
	if settings.InsecureSkipVerify {
		logger.Warn("the brokers' certificates are not checked (kafka.tls.insecure-skip-verify): anybody on the way can pose as a broker")
	}
	return func() *tls.Config { return fresh(value, logger) }, nil
}

// keyPair says which of the two files is at fault.
func keyPair(cert, key reload.File, certPEM, keyPEM []byte) (tls.Certificate, error) {
	block, _ := pem.Decode(certPEM)
	if block == nil || block.Type != "CERTIFICATE" {
		return tls.Certificate{}, &reload.Error{File: cert, Err: errors.New("it holds no certificate in PEM form, or something before it")}
	}
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		return tls.Certificate{}, &reload.Error{File: cert, Err: fmt.Errorf("its certificate cannot be read: %w", err)}
	}
	if reload.IsEncryptedKey(keyPEM) {
		return tls.Certificate{}, &reload.Error{File: key, Err: errors.New("the key is encrypted; store it decrypted, readable for the service alone")}
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return tls.Certificate{}, &reload.Error{File: key, Err: fmt.Errorf("it is not the key of the certificate in %s (%s): %w", cert.Path, cert.Setting, err)}
	}
	return pair, nil
}

// fresh is the value of files as they are now, or were when they could last be used.
func fresh[T any](value *reload.Value[T], logger *slog.Logger) *T {
	reload.Refresh(value, logger)
	return value.Get()
}
