package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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

// readBody reads the JSON body of a POST. The share grows before anything is read or
// decoded that takes memory.
func (f *front) readBody(w http.ResponseWriter, r *http.Request, p params, memory *share) (*checkedBody, *refusal) {
	if problem := checkContentType(r.Header); problem != nil {
		return nil, problem
	}
	text, problem := f.readWhole(w, r, memory)
	if problem != nil {
		return nil, problem
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, refuse(http.StatusBadRequest, codes.InvalidArgument, "EMPTY_BODY",
			"the body is empty: it must be a JSON object such as %s", bodyExample)
	}
	keys, problem := checkObject(text, p)
	if problem != nil {
		return nil, problem
	}
	if err := f.limits.keys(keys, memory); err != nil {
		return nil, f.overLimit(err)
	}
	return newCheckedBody(text), nil
}

// readWhole reads the body as it arrives, not as it is promised. A promise is taken
// for the memory, so that what cannot be answered is refused before it is read.
//
// The deadline stays where a body is refused: net/http waits for the rest of a short one
// before it sends the answer, and must not wait longer for it.
func (f *front) readWhole(w http.ResponseWriter, r *http.Request, memory *share) ([]byte, *refusal) {
	limit := int64(f.limits.maxMessageBytes)
	if r.ContentLength > limit {
		return nil, f.overLimit(f.limits.tooLarge(r.ContentLength))
	}
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(f.limits.bodyTimeout)) // a recorder in a test has none

	body := http.MaxBytesReader(w, r.Body, limit)
	taken := max(r.ContentLength, 0)
	if err := memory.take(memoryPerByte * taken); err != nil {
		return nil, f.overLimit(err)
	}
	text := make([]byte, 0, min(taken+1, firstRead))
	for {
		if len(text) == cap(text) {
			text = slices.Grow(text, max(cap(text), firstRead))
			if more := int64(cap(text)) - taken; r.ContentLength < 0 && more > 0 { // chunked: nothing was promised
				if err := memory.take(memoryPerByte * more); err != nil {
					return nil, f.overLimit(err)
				}
				taken += more
			}
		}
		n, err := body.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		var overLimit *http.MaxBytesError
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			_ = connection.SetReadDeadline(time.Now().Add(f.maxTimeout + writeSlack)) // its end cancels the call
			return text, nil
		case errors.As(err, &overLimit):
			return nil, f.overLimit(f.limits.tooLarge(-1))
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, &refusal{http.StatusRequestTimeout, f.limits.tooSlow()}
		default:
			return nil, refuse(http.StatusBadRequest, codes.InvalidArgument, "INCOMPLETE_BODY", "the body did not arrive whole: %s", err)
		}
	}
}

// firstRead is what a body is read into first, and how it grows at least.
const firstRead = 16 << 10

// overLimit is the answer to a request that met a limit, and counts it.
func (f *front) overLimit(err error) *refusal {
	f.limits.tell(err)
	s := status.Convert(err)
	httpStatus := httpStatusOf(s.Code())
	if errorInfoOf(s).GetReason() == "REQUEST_TOO_LARGE" {
		httpStatus = http.StatusRequestEntityTooLarge
	}
	return &refusal{httpStatus, s}
}

// checkContentType lets nothing but JSON pass. That also keeps web pages of other
// origins out: a form cannot send it.
func checkContentType(h http.Header) *refusal {
	// Of two that differ, one reader would heed the first and another the last.
	if encoding := strings.Join(h.Values("Content-Encoding"), ", "); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return refuse(http.StatusUnsupportedMediaType, codes.InvalidArgument, "UNSUPPORTED_MEDIA_TYPE",
			"the body has Content-Encoding %q: send it as it is", clip(encoding))
	}
	given := strings.Join(h.Values("Content-Type"), ", ")
	mediaType, attributes, err := mime.ParseMediaType(given)
	charset := attributes["charset"]
	if err != nil || mediaType != jsonContentType || (charset != "" && !strings.EqualFold(charset, "utf-8")) {
		return refuse(http.StatusUnsupportedMediaType, codes.InvalidArgument, "UNSUPPORTED_MEDIA_TYPE",
			"the body has Content-Type %q: it must be application/json, in UTF-8 (curl -H 'Content-Type: application/json')", clip(given))
	}
	return nil
}

// noBody refuses a body, an empty one not counted.
func (f *front) noBody(w http.ResponseWriter, r *http.Request, matched *route) *refusal {
	if r.ContentLength == 0 {
		return nil
	}
	if r.ContentLength < 0 { // chunked: whether there is one, reading tells
		connection := http.NewResponseController(w)
		_ = connection.SetReadDeadline(time.Now().Add(f.limits.bodyTimeout))
		switch _, err := io.ReadFull(r.Body, make([]byte, 1)); {
		case errors.Is(err, io.EOF):
			_ = connection.SetReadDeadline(time.Now().Add(f.maxTimeout + writeSlack))
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return &refusal{http.StatusRequestTimeout, f.limits.tooSlow()}
		}
	}
	return refuse(http.StatusBadRequest, codes.InvalidArgument, "UNEXPECTED_BODY",
		"a %s of %s has no body: write what you ask for into the URL, or POST it to /v1/coordinators:find", matched.method, matched.path)
}

// checkObject checks the names of the one JSON object that text must be, counts the
// keys in it, and rewrites enum names of any case to upper case, in place. It does not
// judge the JSON: what it cannot follow it leaves to the decoder, which refuses it.
func checkObject(text []byte, p params) (keys int, problem *refusal) {
	s := scanner{text: text}
	for s.nextMember() {
		f, problem := p.field("field of the body", s.name)
		switch {
		case problem != nil:
			return 0, problem
		case f.IsList():
			keys += s.elements
		default:
			if problem := checkString(f, s.value); problem != nil {
				return 0, problem
			}
		}
	}
	if s.closed && len(bytes.TrimSpace(text[s.at:])) > 0 {
		return 0, refuse(http.StatusBadRequest, codes.InvalidArgument, "TRAILING_DATA",
			"the body goes on after the JSON object, at byte %d: send one object a request", s.at)
	}
	return keys, nil
}

// checkString refuses a JSON string that says nothing to the field, in the words of the
// query, and rewrites the name of an enum value to one that the decoder knows. Written
// without escapes it is no longer than before; spaces fill up.
func checkString(f protoreflect.FieldDescriptor, raw []byte) *refusal {
	var text string
	if raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		return nil // the decoder's to refuse
	}
	switch {
	case isDuration(f):
		_, problem := parseDuration(f, text)
		return problem
	case f.Enum() == nil:
		return nil
	case enumNamed(f, text) == nil:
		return refuseEnum(f, text)
	}
	for i := copy(raw, `"`+upperASCII(text)+`"`); i < len(raw); i++ {
		raw[i] = ' '
	}
	return nil
}

// scanner goes through the members of a JSON object, top level only.
type scanner struct {
	text   []byte
	at     int
	inside bool // the opening brace is behind
	closed bool // so is the closing one

	name     string // of the member
	value    []byte // its value, raw
	elements int    // of the value, where it is a list; else 0 or more
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

// skipValue moves behind the value that starts here, however deep it is, and counts
// its elements.
func (s *scanner) skipValue() {
	s.elements = 0
	for depth := 0; s.at < len(s.text); {
		switch s.text[s.at] {
		case '"':
			s.skipString()
			if depth == 0 {
				return
			}
			continue
		case '{', '[':
			if depth == 0 {
				s.elements = 1 // and one more for each comma
			}
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
			switch depth {
			case 0:
				return
			case 1:
				s.elements++
			}
		}
		s.at++
	}
}
