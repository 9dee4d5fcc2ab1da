package main

import (
	"unsafe"

	"github.com/IBM/sarama"
)

// Sarama does not export its codec. Its functions are linked to by name, and the
// interfaces that they take, which have no exported name, are found through the
// signature of an exported method: an interface of methods is two words, whichever
// it is.
type saramaInterface struct{ methods, value unsafe.Pointer }

//go:linkname saramaEncodeTo github.com/IBM/sarama.encode
func saramaEncodeTo(e, registry saramaInterface) ([]byte, error)

//go:linkname saramaDecodeFrom github.com/IBM/sarama.versionedDecode
func saramaDecodeFrom(buf []byte, in saramaInterface, version int16, registry saramaInterface) error

func saramaEncoder(m any) func() ([]byte, error) {
	e := saramaResult(sarama.MockResponse.For, m)
	return func() ([]byte, error) { return saramaEncodeTo(e, saramaInterface{}) }
}

func saramaDecoder(m any) func(body []byte, version int16) error {
	d := saramaParameter(sarama.MockResponse.For, m)
	return func(body []byte, version int16) error {
		return saramaDecodeFrom(body, d, version, saramaInterface{})
	}
}

func saramaParameter[M, P, R any](_ func(M, P) R, m any) saramaInterface {
	p := m.(P)
	return *(*saramaInterface)(unsafe.Pointer(&p))
}

func saramaResult[M, P, R any](_ func(M, P) R, m any) saramaInterface {
	r := m.(R)
	return *(*saramaInterface)(unsafe.Pointer(&r))
}
