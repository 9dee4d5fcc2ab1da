package server

import (
	"strconv"
	"unicode/utf8"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
)

// resultSize is what a row of an answer takes as JSON, give or take: for the first
// guess at a buffer.
const resultSize = 160

// findJSON is an answer to a lookup as the general writer of MarshalJSON has it, to
// the byte. That one goes over each row by reflection, and answers may have ten
// thousand; here it does so only for rows that are not as nearly all are.
func findJSON(resp *coordsvcv1.FindCoordinatorsResponse) ([]byte, error) {
	text := append(make([]byte, 0, (len(resp.GetResults())+1)*resultSize), `{"results":[`...)
	for i, r := range resp.GetResults() {
		if i > 0 {
			text = append(text, ',')
		}
		var err error
		if text, err = appendResult(text, r); err != nil {
			return nil, err
		}
	}
	text = append(text, `],"failed":`...)
	text = strconv.AppendUint(text, uint64(resp.GetFailed()), 10)
	return append(text, '}'), nil
}

// getJSON is findJSON for the answer that has one row.
func getJSON(resp *coordsvcv1.GetCoordinatorResponse) ([]byte, error) {
	text, err := appendResult(append(make([]byte, 0, 2*resultSize), `{"result":`...), resp.GetResult())
	if err != nil {
		return nil, err
	}
	return append(text, '}'), nil
}

// appendResult appends a row. Fields stand in the order of the .proto, those without
// a value too.
func appendResult(text []byte, r *coordsvcv1.CoordinatorResult) ([]byte, error) {
	c := r.GetCoordinator()
	if c == nil || !isPlain(r.GetKey()) || !isPlain(c.GetHost()) || !isPlain(r.GetAnsweredBy()) {
		general, err := generalJSON(r)
		return append(text, general...), err
	}
	text = appendText(append(text, `{"key":`...), r.GetKey())
	text = strconv.AppendInt(append(text, `,"coordinator":{"nodeId":`...), int64(c.GetNodeId()), 10)
	text = appendText(append(text, `,"host":`...), c.GetHost())
	text = strconv.AppendInt(append(text, `,"port":`...), int64(c.GetPort()), 10)
	text = strconv.AppendInt(append(text, `},"apiVersion":`...), int64(r.GetApiVersion()), 10)
	text = appendText(append(text, `,"answeredBy":`...), r.GetAnsweredBy())
	return append(text, '}'), nil
}

func appendText(text []byte, plain string) []byte {
	text = append(text, '"')
	text = append(text, plain...)
	return append(text, '"')
}

// isPlain reports whether a string stands in JSON as it is.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
