package server

import (
	"bytes"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
)

// readQuestion reads a FindCoordinatorsRequest from JSON of the usual form: members
// each at most once, strings without escapes. ok is false, and m as it was, for
// all else, right or wrong: protojson reads that, or says what is wrong with it.
// So there is nothing that only readQuestion accepts; a fuzz test sees to it.
//
// The keys of m share one copy of text, where protojson makes three a key.
func readQuestion(text []byte, m proto.Message) (ok bool) {
	question, ok := m.(*coordsvcv1.FindCoordinatorsRequest)
	if !ok || !utf8.Valid(text) {
		return false
	}
	r := questionReader{text: string(text)}
	read, ok := r.question()
	if !ok {
		return false
	}
	question.KeyType, question.Keys, question.Timeout = read.keyType, read.keys, read.timeout
	return true
}

type question struct {
	keyType coordsvcv1.KeyType
	keys    []string
	timeout *durationpb.Duration
}

type questionReader struct {
	text string
	at   int
}

func (r *questionReader) question() (q question, ok bool) {
	if !r.take('{') {
		return q, false
	}
	var hasType, hasKeys bool
	for first := true; !r.take('}'); first = false {
		if !first && !r.take(',') {
			return q, false
		}
		name, ok := r.plainString()
		if !ok || !r.take(':') {
			return q, false
		}
		switch name {
		case "keyType", "key_type":
			ok = !hasType && r.keyType(&q)
			hasType = true
		case "keys":
			ok = !hasKeys && r.keys(&q)
			hasKeys = true
		case "timeout":
			ok = q.timeout == nil && r.timeout(&q)
		default:
			ok = false
		}
		if !ok {
			return q, false
		}
	}
	r.skipSpace()
	return q, r.at == len(r.text)
}

func (r *questionReader) keyType(q *question) bool {
	name, ok := r.plainString()
	if !ok {
		return false
	}
	number, ok := coordsvcv1.KeyType_value[name]
	q.keyType = coordsvcv1.KeyType(number)
	return ok
}

func (r *questionReader) keys(q *question) bool {
	if !r.take('[') {
		return false
	}
	for !r.take(']') {
		if len(q.keys) > 0 && !r.take(',') {
			return false
		}
		key, ok := r.plainString()
		if !ok {
			return false
		}
		q.keys = append(q.keys, key)
	}
	return true
}

func (r *questionReader) timeout(q *question) bool {
	value, ok := r.plainString()
	if !ok {
		return false
	}
	q.timeout = new(durationpb.Duration)
	return protojson.Unmarshal([]byte(`"`+value+`"`), q.timeout) == nil
}

// plainString reads a string without escapes and control characters.
func (r *questionReader) plainString() (string, bool) {
	if !r.take('"') {
		return "", false
	}
	for start := r.at; r.at < len(r.text); r.at++ {
		switch b := r.text[r.at]; {
		case b == '"':
			r.at++
			return r.text[start : r.at-1], true
		case b == '\\' || b < ' ':
			return "", false
		}
	}
	return "", false
}

// take goes behind b if that is what comes next, white space aside.
func (r *questionReader) take(b byte) bool {
	r.skipSpace()
	if r.at == len(r.text) || r.text[r.at] != b {
		return false
	}
	r.at++
	return true
}

func (r *questionReader) skipSpace() {
	for r.at < len(r.text) && bytes.IndexByte([]byte(" \t\r\n"), r.text[r.at]) >= 0 {
		r.at++
	}
}
