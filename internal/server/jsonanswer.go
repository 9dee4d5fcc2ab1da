package server

import (
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
)

// protojson takes about 75 ms and 160,000 allocations for an answer of 10,000
// results, twenty times what protobuf takes. The answers to lookups are therefore
// written by hand, byte for byte as protojson would (jsonOut, compacted): a fuzz
// test compares the two, and another fails for a field that is missing here.
// Everything else, and any text that is not UTF-8, is left to protojson.

// appendAnswer appends m as JSON; ok is false, and dst as it was, for what it does not write.
func appendAnswer(dst []byte, m proto.Message) (_ []byte, ok bool) {
	w := jsonWriter{buf: dst}
	switch m := m.(type) {
	case *coordsvcv1.FindCoordinatorsResponse:
		w.findResponse(m)
	case *coordsvcv1.GetCoordinatorResponse:
		w.getResponse(m)
	case *coordsvcv1.CoordinatorResult:
		w.result(m)
	default:
		return dst, false
	}
	if w.notUTF8 {
		return dst, false
	}
	return w.buf, true
}

// resultSize is about what a result takes as JSON, next to its key.
const resultSize = 160

// answerSize estimates the JSON of m, so that a long answer is written into one allocation.
func answerSize(m proto.Message) int {
	resp, ok := m.(*coordsvcv1.FindCoordinatorsResponse)
	if !ok {
		return 2 * resultSize
	}
	size := resultSize
	for _, r := range resp.GetResults() {
		size += resultSize + len(r.GetKey()) + len(r.GetError().GetMessage())
	}
	return size
}

// jsonWriter appends JSON to buf. The comma before a member is part of its name.
type jsonWriter struct {
	buf     []byte
	notUTF8 bool
}

func (w *jsonWriter) findResponse(m *coordsvcv1.FindCoordinatorsResponse) {
	w.raw(`{"results":[`)
	for i, r := range m.GetResults() {
		if i > 0 {
			w.raw(`,`)
		}
		w.result(r)
	}
	w.raw(`],"failed":`)
	w.buf = strconv.AppendUint(w.buf, uint64(m.GetFailed()), 10)
	w.raw(`}`)
}

func (w *jsonWriter) getResponse(m *coordsvcv1.GetCoordinatorResponse) {
	w.raw(`{`)
	if m.GetResult() != nil {
		w.raw(`"result":`)
		w.result(m.GetResult())
	}
	w.raw(`}`)
}

func (w *jsonWriter) result(m *coordsvcv1.CoordinatorResult) {
	w.text(`{"key":`, m.GetKey())
	switch outcome := m.GetOutcome().(type) {
	case *coordsvcv1.CoordinatorResult_Coordinator:
		if outcome != nil {
			w.coordinator(outcome.Coordinator)
		}
	case *coordsvcv1.CoordinatorResult_Error:
		if outcome != nil {
			w.lookupError(outcome.Error)
		}
	}
	w.number(`,"apiVersion":`, m.GetApiVersion())
	w.text(`,"answeredBy":`, m.GetAnsweredBy())
	w.raw(`}`)
}

func (w *jsonWriter) coordinator(m *coordsvcv1.Coordinator) {
	w.number(`,"coordinator":{"nodeId":`, m.GetNodeId())
	w.text(`,"host":`, m.GetHost())
	w.number(`,"port":`, m.GetPort())
	w.raw(`}`)
}

func (w *jsonWriter) lookupError(m *coordsvcv1.LookupError) {
	w.text(`,"error":{"reason":`, m.GetReason())
	w.number(`,"kafkaCode":`, m.GetKafkaCode())
	w.text(`,"message":`, m.GetMessage())
	w.raw(`,"retriable":`)
	w.buf = strconv.AppendBool(w.buf, m.GetRetriable())
	w.raw(`}`)
}

func (w *jsonWriter) raw(text string) { w.buf = append(w.buf, text...) }

func (w *jsonWriter) number(name string, n int32) {
	w.raw(name)
	w.buf = strconv.AppendInt(w.buf, int64(n), 10)
}

// text writes a string with the escapes that protojson uses: only those that JSON
// demands.
func (w *jsonWriter) text(name, s string) {
	w.raw(name)
	w.buf = append(w.buf, '"')
	if !utf8.ValidString(s) {
		w.notUTF8 = true
	}
	written := 0
	for i := range len(s) {
		b := s[i]
		if b >= ' ' && b != '"' && b != '\\' {
			continue
		}
		w.raw(s[written:i])
		w.escape(b)
		written = i + 1
	}
	w.raw(s[written:])
	w.buf = append(w.buf, '"')
}

func (w *jsonWriter) escape(b byte) {
	const hex = "0123456789abcdef"
	switch b {
	case '"', '\\':
		w.buf = append(w.buf, '\\', b)
	case '\b':
		w.raw(`\b`)
	case '\f':
		w.raw(`\f`)
	case '\n':
		w.raw(`\n`)
	case '\r':
		w.raw(`\r`)
	case '\t':
		w.raw(`\t`)
	default:
		w.buf = append(w.buf, '\\', 'u', '0', '0', hex[b>>4], hex[b&0xf])
	}
}
