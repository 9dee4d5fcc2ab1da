package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// checkedBody is a request body that is read and checked; the gateway's decoder
// takes the text from it without a copy.
type checkedBody struct {
	text []byte
	bytes.Reader
}

func newCheckedBody(text []byte) *checkedBody {
	b := &checkedBody{text: text}
	b.Reset(text)
	return b
}

func (*checkedBody) Close() error { return nil }

// readBody reads the JSON body of a POST.
func readBody(w http.ResponseWriter, r *http.Request, p params, limit int64) (*checkedBody, *refusal) {
	if problem := checkContentType(r.Header); problem != nil {
		return nil, problem
	}
	tooLarge := refuse(http.StatusRequestEntityTooLarge, codes.ResourceExhausted, "REQUEST_TOO_LARGE",
		"the body is over the limit of %d bytes (setting limits.max-message-bytes): ask for fewer keys at a time", limit)
	if r.ContentLength > limit {
		return nil, tooLarge
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit)) // grows with what arrives, not with what is promised
	var overLimit *http.MaxBytesError
	switch {
	case errors.As(err, &overLimit):
		return nil, tooLarge
	case err != nil:
		return nil, refuse(http.StatusBadRequest, codes.InvalidArgument, "INCOMPLETE_BODY", "the body did not arrive whole: %s", err)
	case len(bytes.TrimSpace(text)) == 0:
		return nil, refuse(http.StatusBadRequest, codes.InvalidArgument, "EMPTY_BODY",
			`the body is empty: it must be a JSON object such as {"keyType":"GROUP","keys":["orders"]}`)
	}
	if problem := checkObject(text, p); problem != nil {
		return nil, problem
	}
	return newCheckedBody(text), nil
}

// checkContentType lets nothing but JSON pass. That also keeps web pages of other
// origins out: a form cannot send it.
func checkContentType(h http.Header) *refusal {
	if encoding := h.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return refuse(http.StatusUnsupportedMediaType, codes.InvalidArgument, "UNSUPPORTED_MEDIA_TYPE",
			"the body has Content-Encoding %q: send it as it is", clip(encoding))
	}
	given := h.Get("Content-Type")
	mediaType, attributes, err := mime.ParseMediaType(given)
	charset := attributes["charset"]
	if err != nil || mediaType != jsonContentType || (charset != "" && !strings.EqualFold(charset, "utf-8")) {
		return refuse(http.StatusUnsupportedMediaType, codes.InvalidArgument, "UNSUPPORTED_MEDIA_TYPE",
			"the body has Content-Type %q: it must be application/json, in UTF-8 (curl -H 'Content-Type: application/json')", clip(given))
	}
	return nil
}

// hasBody reports whether a request has a body, an empty one not counted.
func hasBody(r *http.Request) bool {
	if r.ContentLength >= 0 {
		return r.ContentLength > 0
	}
	n, _ := io.ReadFull(r.Body, make([]byte, 1))
	return n > 0
}

// checkObject checks the names of the one JSON object that text must be, and
// rewrites enum names of any case to upper case, in place. It does not judge the
// JSON: what it cannot follow it leaves to the decoder, which refuses it.
func checkObject(text []byte, p params) *refusal {
	s := scanner{text: text}
	for s.nextMember() {
		f, problem := p.field("field of the body", s.name)
		if problem != nil {
			return problem
		}
		if f.Enum() == nil || f.IsList() || !isPlainString(s.value) {
			continue
		}
		name := s.value[1 : len(s.value)-1]
		if _, problem := enumValue(f, string(name)); problem != nil {
			return problem
		}
		upperInPlace(f, name)
	}
	if s.closed && len(bytes.TrimSpace(text[s.at:])) > 0 {
		return refuse(http.StatusBadRequest, codes.InvalidArgument, "TRAILING_DATA",
			"the body goes on after the JSON object, at byte %d: send one object a request", s.at)
	}
	return nil
}

// isPlainString reports whether raw is a JSON string without escapes.
func isPlainString(raw []byte) bool {
	return len(raw) >= 2 && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0
}

func upperInPlace(f protoreflect.FieldDescriptor, name []byte) {
	if upper := upperASCII(string(name)); f.Enum().Values().ByName(protoreflect.Name(upper)) != nil {
		copy(name, upper)
	}
}

// scanner goes through the members of a JSON object, top level only.
type scanner struct {
	text   []byte
	at     int
	inside bool // the opening brace is behind
	closed bool // so is the closing one

	name  string // of the member
	value []byte // its value, raw
}

// nextMember goes to the next member; false at the end and at whatever is not
// the JSON of a member.
func (s *scanner) nextMember() bool {
	if !s.inside {
		if s.peek() != '{' {
			return false
		}
		s.inside = true
		s.at++
	} else if s.peek() == ',' {
		s.at++
	}
	if s.peek() == '}' {
		s.at++
		s.closed = true
		return false
	}
	if s.closed || s.peek() != '"' {
		return false
	}
	rawName := s.text[s.at:s.skipString()]
	if json.Unmarshal(rawName, &s.name) != nil || s.peek() != ':' {
		return false
	}
	s.at++
	s.peek()
	start := s.at
	s.skipValue()
	s.value = s.text[start:s.at]
	return len(s.value) > 0
}

// peek skips white space and is the byte that follows, 0 at the end.
func (s *scanner) peek() byte {
	for s.at < len(s.text) {
		switch b := s.text[s.at]; b {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return b
		}
	}
	return 0
}

// skipString moves behind the string that starts here and returns that place.
func (s *scanner) skipString() int {
	for s.at++; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case '\\':
			s.at++
		case '"':
			s.at++
			return s.at
		}
	}
	s.at = len(s.text) // unclosed, or ends in a backslash
	return s.at
}

// skipValue moves behind the value that starts here, however deep it is.
func (s *scanner) skipValue() {
	for depth := 0; s.at < len(s.text); {
		switch s.text[s.at] {
		case '"':
			s.skipString()
			if depth == 0 {
				return
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return
			}
			depth--
			if depth == 0 {
				s.at++
				return
			}
		case ',':
			if depth == 0 {
				return
			}
		}
		s.at++
	}
}
