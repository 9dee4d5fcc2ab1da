package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/coordsvc/coordsvc/api/openapi"
	"github.com/coordsvc/coordsvc/internal/telemetry"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
)

const asJSON = "application/json"

// TestREST is the table of how REST answers. Where want is given it is the answer;
// where reason is given the answer is a google.rpc.Status with that reason whose
// message has every part of says.
func TestREST(t *testing.T) {
	const (
		ordersFound = `{"key":"orders","coordinator":{"nodeId":0,"host":"kafka-2.example","port":9092},"apiVersion":6,"answeredBy":"kafka-1.example:9092"}`
		oneFound    = `{"result":` + ordersFound + `}`
		listFound   = `{"results":[` + ordersFound + `],"failed":0}`
		find        = "/v1/coordinators:find"
		form        = "application/x-www-form-urlencoded"
	)
	cases := []struct {
		name, method, target, contentType, body string

		status int
		want   string
		reason string
		says   []string
		allow  string
	}{
		// The three calls in all their forms.
		{name: "path form", method: "GET", target: "/v1/coordinators/GROUP/orders", status: 200, want: oneFound},
		{name: "path form, key type in lower case", method: "GET", target: "/v1/coordinators/group/orders", status: 200, want: oneFound},
		{name: "path form, key type by number", method: "GET", target: "/v1/coordinators/1/orders", status: 200, want: oneFound},
		{name: "path form with a timeout", method: "GET", target: "/v1/coordinators/GROUP/orders?timeout=2.5s", status: 200, want: oneFound},
		{name: "a timeout of centuries is cut to the longest", method: "GET", target: "/v1/coordinators/GROUP/orders?timeout=45068204898s", status: 200, want: oneFound},
		{name: "query form", method: "GET", target: "/v1/coordinator?keyType=GROUP&key=orders", status: 200, want: oneFound},
		{name: "query form, snake case, lower case", method: "GET", target: "/v1/coordinator?key_type=transaction&key=orders", status: 200, want: oneFound},
		{name: "query form without a key type", method: "GET", target: "/v1/coordinator?key=orders", status: 200, want: oneFound},
		{name: "query form, stray ampersands", method: "GET", target: "/v1/coordinator?&key=orders&", status: 200, want: oneFound},
		{name: "keys in the query", method: "GET", target: "/v1/coordinators?keyType=Group&keys=orders", status: 200, want: listFound},
		{name: "no keys is the service's to judge", method: "GET", target: "/v1/coordinators", status: 200, want: `{"results":[],"failed":0}`},
		{name: "body", method: "POST", target: find, contentType: asJSON, body: `{"keyType":"GROUP","keys":["orders"],"timeout":"2.5s"}`, status: 200, want: listFound},
		{name: "body, snake case, mixed case", method: "POST", target: find, contentType: asJSON, body: `{"key_type":"gRoUp","keys":["orders"]}`, status: 200, want: listFound},
		{name: "body, escaped key type", method: "POST", target: find, contentType: asJSON, body: `{"keyType":"\u0067roup","keys":["orders"]}`, status: 200, want: listFound},
		{name: "body, key type by number", method: "POST", target: find, contentType: asJSON, body: `{"keyType":3,"keys":["orders"]}`, status: 200, want: listFound},
		{name: "body, null is absent", method: "POST", target: find, contentType: asJSON, body: `{"keyType":null,"keys":["orders"],"timeout":null}`, status: 200, want: listFound},
		{name: "body with charset", method: "POST", target: find, contentType: "application/json; charset=UTF-8", body: `{"keys":["orders"]}`, status: 200, want: listFound},
		{name: "body, escaped names", method: "POST", target: find, contentType: asJSON, body: `{"key\u0073":["orders"]}`, status: 200, want: listFound},
		{name: "body, white space around", method: "POST", target: find, contentType: asJSON, body: " \r\n\t{ \"keys\" : [ \"orders\" ] }\n ", status: 200, want: listFound},
		{name: "a percent-encoded colon in the path", method: "POST", target: "/v1/coordinators%3Afind", contentType: asJSON, body: `{"keys":["orders"]}`, status: 200, want: listFound},
		{name: "brokers", method: "GET", target: "/v1/brokers", status: 200,
			want: `{"brokers":[{"nodeId":-1,"host":"kafka-1.example","port":9092,"rack":"","reachable":false,"connections":{"open":0,"idle":0,"inUse":0},"state":"BROKER_STATE_UNSPECIFIED","saslMechanism":""}]}`},
		{name: "HEAD", method: "HEAD", target: "/v1/coordinators/GROUP/orders", status: 200},
		{name: "HEAD of the query form", method: "HEAD", target: "/v1/coordinator?key=orders", status: 200},
		{name: "HEAD of the description", method: "HEAD", target: "/openapi.json", status: 200},
		{name: "OPTIONS", method: "OPTIONS", target: "/v1/brokers", status: 204, allow: "GET, HEAD, OPTIONS"},
		{name: "OPTIONS of find", method: "OPTIONS", target: find, status: 204, allow: "POST, OPTIONS"},

		// Paths.
		{name: "root", method: "GET", target: "/", status: 404, reason: "NOT_FOUND", says: []string{"/openapi.json"}},
		{name: "unknown path", method: "GET", target: "/v2/coordinators", status: 404, reason: "NOT_FOUND"},
		{name: "key type alone", method: "GET", target: "/v1/coordinators/GROUP", status: 404, reason: "NOT_FOUND", says: []string{"{key type}/{key}"}},
		{name: "bare slash in a key", method: "GET", target: "/v1/coordinators/GROUP/a/b", status: 404, reason: "NOT_FOUND", says: []string{"%2F", "/v1/coordinator?"}},
		{name: "trailing slash", method: "GET", target: "/v1/brokers/", status: 404, reason: "NOT_FOUND"},
		{name: "doubled slash", method: "GET", target: "/v1//brokers", status: 404, reason: "NOT_FOUND"},
		{name: "dots are not resolved", method: "GET", target: "/v1/x/../brokers", status: 404, reason: "NOT_FOUND"},
		{name: "other method on an unknown path", method: "DELETE", target: "/nowhere", status: 404, reason: "NOT_FOUND"},
		{name: "OPTIONS of an unknown path", method: "OPTIONS", target: "/nowhere", status: 404, reason: "NOT_FOUND"},
		{name: "unknown key type in the path", method: "GET", target: "/v1/coordinators/TOPIC/orders", status: 400, reason: "INVALID_ARGUMENT", says: []string{`"TOPIC"`, "GROUP, TRANSACTION or SHARE"}},
		{name: "unknown key type number in the path", method: "GET", target: "/v1/coordinators/9/orders", status: 400, reason: "INVALID_ARGUMENT", says: []string{`"9"`}},
		{name: "empty key type in the path", method: "GET", target: "/v1/coordinators//orders", status: 400, reason: "INVALID_ARGUMENT"},
		{name: "path is not UTF-8", method: "GET", target: "/v1/coordinators/GROUP/%ff", status: 400, reason: "INVALID_PATH", says: []string{"segment 4", "UTF-8"}},

		// Methods.
		{name: "PUT", method: "PUT", target: "/v1/coordinators/GROUP/orders", status: 405, reason: "METHOD_NOT_ALLOWED", allow: "GET, HEAD, OPTIONS"},
		{name: "POST on a GET path", method: "POST", target: "/v1/coordinators", contentType: asJSON, body: `{"keys":["orders"]}`, status: 405, reason: "METHOD_NOT_ALLOWED", allow: "GET, HEAD, OPTIONS", says: []string{"POST goes to /v1/coordinators:find"}},
		{name: "POST to a key that ends in a verb", method: "POST", target: "/v1/coordinators/GROUP/x:find", contentType: asJSON, body: `{"keys":["orders"]}`, status: 405, reason: "METHOD_NOT_ALLOWED", allow: "GET, HEAD, OPTIONS"},
		{name: "form on a GET path", method: "POST", target: "/v1/coordinator", contentType: form, body: "key=orders", status: 405, reason: "METHOD_NOT_ALLOWED", allow: "GET, HEAD, OPTIONS"},
		{name: "GET of find", method: "GET", target: find, status: 405, reason: "METHOD_NOT_ALLOWED", allow: "POST, OPTIONS"},
		{name: "HEAD of find", method: "HEAD", target: find, status: 405, allow: "POST, OPTIONS"},
		{name: "TRACE", method: "TRACE", target: "/v1/brokers", status: 405, reason: "METHOD_NOT_ALLOWED", allow: "GET, HEAD, OPTIONS"},
		{name: "a method of nobody", method: "FROB", target: "/openapi.json", status: 405, reason: "METHOD_NOT_ALLOWED", allow: "GET, HEAD, OPTIONS"},

		// Queries.
		{name: "misspelt name", method: "GET", target: "/v1/coordinators?keyType=GROUP&kes=a", status: 400, reason: "UNKNOWN_FIELD", says: []string{`"kes"`, "did you mean keys?"}},
		{name: "misspelt type", method: "GET", target: "/v1/coordinator?keytype=GROUP&key=a", status: 400, reason: "UNKNOWN_FIELD", says: []string{"did you mean keyType?"}},
		{name: "name of the other call", method: "GET", target: "/v1/coordinator?keys=a", status: 400, reason: "UNKNOWN_FIELD", says: []string{"did you mean key?"}},
		{name: "far from any name", method: "GET", target: "/v1/coordinator?key=a&pretty=true", status: 400, reason: "UNKNOWN_FIELD", says: []string{"keyType, key or timeout"}},
		{name: "map syntax", method: "GET", target: "/v1/coordinators?keys[a]=b", status: 400, reason: "UNKNOWN_FIELD"},
		{name: "what is in the path again", method: "GET", target: "/v1/coordinators/GROUP/orders?key=other", status: 400, reason: "UNKNOWN_FIELD", says: []string{"timeout"}},
		{name: "name where none is known", method: "GET", target: "/v1/brokers?verbose", status: 400, reason: "UNKNOWN_FIELD", says: []string{`"verbose"`}},
		{name: "query of a POST", method: "POST", target: find + "?verbose=1", contentType: asJSON, body: `{"keys":["orders"]}`, status: 400, reason: "INVALID_QUERY", says: []string{"in the body"}},
		{name: "query of a POST that the body knows", method: "POST", target: find + "?keyType=TRANSACTION", contentType: asJSON, body: `{"keys":["orders"]}`, status: 400, reason: "INVALID_QUERY"},
		{name: "key twice", method: "GET", target: "/v1/coordinator?key=a&key=b", status: 400, reason: "INVALID_ARGUMENT", says: []string{"more than once"}},
		{name: "key type twice, two spellings", method: "GET", target: "/v1/coordinator?key=a&keyType=GROUP&key_type=SHARE", status: 400, reason: "INVALID_ARGUMENT", says: []string{"more than once"}},
		{name: "forgotten key", method: "GET", target: "/v1/coordinator?keyType=GROUP", status: 400, reason: "MISSING_FIELD", says: []string{"key="}},
		{name: "unknown key type", method: "GET", target: "/v1/coordinator?keyType=topic&key=a", status: 400, reason: "INVALID_ARGUMENT", says: []string{`"topic"`, "GROUP, TRANSACTION or SHARE"}},
		{name: "dotless i", method: "GET", target: "/v1/coordinator?keyType=transact%C4%B1on&key=a", status: 400, reason: "INVALID_ARGUMENT"},
		{name: "empty key type", method: "GET", target: "/v1/coordinator?keyType=&key=a", status: 400, reason: "INVALID_ARGUMENT"},
		{name: "timeout without unit", method: "GET", target: "/v1/coordinator?key=a&timeout=5", status: 400, reason: "INVALID_ARGUMENT", says: []string{`"5"`, "2.5s"}},
		{name: "timeout in another unit", method: "GET", target: "/v1/coordinator?key=a&timeout=500ms", status: 400, reason: "INVALID_ARGUMENT", says: []string{"2.5s"}},
		{name: "query is not UTF-8", method: "GET", target: "/v1/coordinator?key=%ff", status: 400, reason: "INVALID_QUERY", says: []string{"UTF-8"}},
		{name: "stray percent in a query", method: "GET", target: "/v1/coordinator?key=100%", status: 400, reason: "INVALID_QUERY", says: []string{"%25"}},

		// Bodies.
		{name: "misspelt field", method: "POST", target: find, contentType: asJSON, body: `{"keyTypo":"GROUP","keys":["orders"]}`, status: 400, reason: "UNKNOWN_FIELD", says: []string{`"keyTypo"`, "did you mean keyType?"}},
		{name: "unknown field with a deep value", method: "POST", target: find, contentType: asJSON, body: `{"keys":["a}"],"x":{"a":[{"b":"]"}]}}`, status: 400, reason: "UNKNOWN_FIELD", says: []string{`"x"`}},
		{name: "field of the other call", method: "POST", target: find, contentType: asJSON, body: `{"key":"orders"}`, status: 400, reason: "UNKNOWN_FIELD", says: []string{"did you mean keys?"}},
		{name: "field twice", method: "POST", target: find, contentType: asJSON, body: `{"keys":["a"],"keys":["b"]}`, status: 400, reason: "INVALID_ARGUMENT", says: []string{"keys"}},
		{name: "field twice, two spellings", method: "POST", target: find, contentType: asJSON, body: `{"keyType":"GROUP","key_type":"SHARE","keys":["b"]}`, status: 400, reason: "INVALID_ARGUMENT", says: []string{"key_type"}},
		{name: "unknown key type", method: "POST", target: find, contentType: asJSON, body: `{"keyType":"topic","keys":["a"]}`, status: 400, reason: "INVALID_ARGUMENT", says: []string{`"topic"`, "GROUP, TRANSACTION or SHARE"}},
		{name: "unknown key type, escaped", method: "POST", target: find, contentType: asJSON, body: `{"keyType":"\u0074opic","keys":["a"]}`, status: 400, reason: "INVALID_ARGUMENT", says: []string{`"topic"`, "GROUP, TRANSACTION or SHARE"}},
		{name: "key type of half a surrogate pair", method: "POST", target: find, contentType: asJSON, body: `{"keyType":"\ud800","keys":["a"]}`, status: 400, reason: "INVALID_ARGUMENT"},
		{name: "second object", method: "POST", target: find, contentType: asJSON, body: `{"keys":["a"]}{"keys":["b"]}`, status: 400, reason: "TRAILING_DATA", says: []string{"byte 14"}},
		{name: "garbage behind", method: "POST", target: find, contentType: asJSON, body: `{"keys":["a"]} x`, status: 400, reason: "TRAILING_DATA"},
		{name: "NUL behind", method: "POST", target: find, contentType: asJSON, body: "{\"keys\":[\"a\"]}\x00", status: 400, reason: "TRAILING_DATA"},
		{name: "no body", method: "POST", target: find, contentType: asJSON, status: 400, reason: "EMPTY_BODY", says: []string{`{"keyType"`}},
		{name: "white space", method: "POST", target: find, contentType: asJSON, body: " \n", status: 400, reason: "EMPTY_BODY"},
		{name: "list", method: "POST", target: find, contentType: asJSON, body: `["a"]`, status: 400, reason: "INVALID_ARGUMENT"},
		{name: "null", method: "POST", target: find, contentType: asJSON, body: `null`, status: 400, reason: "INVALID_ARGUMENT"},
		{name: "cut off", method: "POST", target: find, contentType: asJSON, body: `{"keys":["a"`, status: 400, reason: "INVALID_ARGUMENT"},
		{name: "cut off in a name", method: "POST", target: find, contentType: asJSON, body: `{"keys`, status: 400, reason: "INVALID_ARGUMENT"},
		{name: "ends in a backslash", method: "POST", target: find, contentType: asJSON, body: `{"keys":["\`, status: 400, reason: "INVALID_ARGUMENT"},
		{name: "no comma", method: "POST", target: find, contentType: asJSON, body: `{"keys":["a"] "timeout":"1s"}`, status: 400, reason: "INVALID_ARGUMENT"},
		{name: "comma too many", method: "POST", target: find, contentType: asJSON, body: `{"keys":["a"],}`, status: 400, reason: "INVALID_ARGUMENT"},
		{name: "comment", method: "POST", target: find, contentType: asJSON, body: `{/**/"keys":["a"]}`, status: 400, reason: "INVALID_ARGUMENT"},
		{name: "byte order mark", method: "POST", target: find, contentType: asJSON, body: "\xef\xbb\xbf{\"keys\":[\"a\"]}", status: 400, reason: "INVALID_ARGUMENT"},
		{name: "key is a number", method: "POST", target: find, contentType: asJSON, body: `{"keys":[5]}`, status: 400, reason: "INVALID_ARGUMENT", says: []string{"keys", "FindCoordinatorsRequest"}},
		{name: "keys is a string", method: "POST", target: find, contentType: asJSON, body: `{"keys":"a"}`, status: 400, reason: "INVALID_ARGUMENT", says: []string{`FindCoordinatorsRequest: (line 1:9)`, `it is written as {"keyType":"GROUP","keys":["orders"],"timeout":"2.5s"}`}},
		{name: "timeout is a number", method: "POST", target: find, contentType: asJSON, body: `{"keys":["a"],"timeout":5}`, status: 400, reason: "INVALID_ARGUMENT", says: []string{`FindCoordinatorsRequest: (line 1:25)`, `"timeout":"2.5s"`}},
		{name: "timeout in another unit", method: "POST", target: find, contentType: asJSON, body: `{"keys":["a"],"timeout":"500ms"}`, status: 400, reason: "INVALID_ARGUMENT"},
		{name: "body is not UTF-8", method: "POST", target: find, contentType: asJSON, body: "{\"keys\":[\"\xff\"]}", status: 400, reason: "INVALID_ARGUMENT", says: []string{"UTF-8"}},
		{name: "half a surrogate pair", method: "POST", target: find, contentType: asJSON, body: `{"keys":["\ud800"]}`, status: 400, reason: "INVALID_ARGUMENT", says: []string{"half of a surrogate pair"}},
		{name: "nested beyond measure", method: "POST", target: find, contentType: asJSON, body: `{"keys":` + strings.Repeat("[", 100_000) + `}`, status: 400, reason: "INVALID_ARGUMENT"},
		{name: "form", method: "POST", target: find, contentType: form, body: `{"keys":["orders"]}`, status: 415, reason: "UNSUPPORTED_MEDIA_TYPE", says: []string{form, "application/json"}},
		{name: "plain text", method: "POST", target: find, contentType: "text/plain", body: `{"keys":["orders"]}`, status: 415, reason: "UNSUPPORTED_MEDIA_TYPE"},
		{name: "no content type", method: "POST", target: find, body: `{"keys":["orders"]}`, status: 415, reason: "UNSUPPORTED_MEDIA_TYPE"},
		{name: "other charset", method: "POST", target: find, contentType: "application/json; charset=latin1", body: `{"keys":["orders"]}`, status: 415, reason: "UNSUPPORTED_MEDIA_TYPE"},
		{name: "unparsable content type", method: "POST", target: find, contentType: "application/json; =", body: `{"keys":["orders"]}`, status: 415, reason: "UNSUPPORTED_MEDIA_TYPE"},
		{name: "body of a GET", method: "GET", target: "/v1/coordinators", contentType: asJSON, body: `{"keys":["orders"]}`, status: 400, reason: "UNEXPECTED_BODY", says: []string{find}},
		{name: "too large", method: "POST", target: find, contentType: asJSON, body: `{"keys":["` + strings.Repeat("x", 5000) + `"]}`, status: 413, reason: "REQUEST_TOO_LARGE", says: []string{"4096", "limits.max-message-bytes"}},
	}
	const nested = 250_000 // room for the case that is nested beyond measure
	r := start(t, &fakeService{})
	small := start(t, &fakeService{}, func(c *Config) { c.MaxMessageBytes = 4096 })
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			server := r
			if c.status == http.StatusRequestEntityTooLarge {
				server = small
			}
			require.Less(t, len(c.body), nested)
			var headers []string
			if c.contentType != "" {
				headers = []string{"Content-Type", c.contentType}
			}
			got := server.do(t, c.method, c.target, c.body, headers...)
			require.Equal(t, c.status, got.status, "%s", got.body)
			require.Equal(t, c.allow, got.header.Get("Allow"))
			require.NotEmpty(t, got.header.Get("X-Request-Id"))
			require.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"))
			require.Equal(t, "no-store", got.header.Get("Cache-Control"))
			if c.status != http.StatusNoContent {
				require.Equal(t, asJSON, got.header.Get("Content-Type"))
			}
			if c.method == "HEAD" || c.status == http.StatusNoContent {
				require.Empty(t, got.body)
				return
			}
			if c.want != "" {
				require.Equal(t, c.want+"\n", string(got.body))
				return
			}
			require.NotEmpty(t, c.reason)
			requireStatus(t, got, c.reason, c.says...)
		})
	}
}

// requireStatus requires a google.rpc.Status with an ErrorInfo.
func requireStatus(t *testing.T, got answer, reason string, says ...string) *status.Status {
	t.Helper()
	s := status.New(codes.OK, "").Proto()
	require.NoError(t, protojson.Unmarshal(got.body, s), "%s", got.body)
	require.NotZero(t, s.GetCode())
	st := status.FromProto(s)
	info := errorInfoOf(st)
	require.NotNil(t, info, "%s", got.body)
	require.Equal(t, reason, info.GetReason(), "%s", got.body)
	require.Equal(t, "coordsvc", info.GetDomain())
	for _, part := range says {
		require.Contains(t, s.GetMessage(), part)
	}
	require.Less(t, len(s.GetMessage()), 1000)
	return st
}

func TestFieldViolationsAreNamed(t *testing.T) {
	r := start(t, &fakeService{})
	for target, field := range map[string]string{
		"/v1/coordinators?topics=a":            "topics",
		"/v1/coordinator?keyType=topic&key=a":  "key_type",
		"/v1/coordinator?key=a&timeout=banana": "timeout",
		"/v1/coordinator":                      "key",
	} {
		requireViolation(t, r.do(t, "GET", target, ""), field)
	}
	for body, field := range map[string]string{
		`{"keys":["a"],"topics":"a"}`:             "topics",
		`{"keys":["a"],"keyType":"topic"}`:        "key_type",
		`{"keys":["a"],"keyType":"to\u0070ic"}`:   "key_type",
		`{"keys":["a"],"keyType":"1"}`:            "key_type",
		`{"keys":["a"],"keyType":""}`:             "key_type",
		`{"keys":["a"],"timeout":"banana"}`:       "timeout",
		`{"keys":["a"],"timeout":"1h"}`:           "timeout",
		`{"keys":["a"],"timeout":"\u0031\u0068"}`: "timeout",
	} {
		requireViolation(t, r.do(t, "POST", "/v1/coordinators:find", body, "Content-Type", "application/json"), field)
	}
}

func requireViolation(t *testing.T, got answer, field string) {
	t.Helper()
	require.Equal(t, 400, got.status)
	details := got.json(t)["details"].([]any)
	require.Len(t, details, 2, "%s", got.body)
	violations := details[1].(map[string]any)["fieldViolations"].([]any)
	require.Equal(t, field, violations[0].(map[string]any)["field"])
}

// TestWhatNetHTTPRefuses sends what net/http answers itself, as plain text.
func TestWhatNetHTTPRefuses(t *testing.T) {
	metrics := telemetry.NewMetrics(telemetry.Build{})
	r := start(t, &fakeService{}, func(c *Config) { c.Metrics = metrics })
	cases := []struct {
		name, raw string
		status    int
		reason    string
		says      string
	}{
		{"stray percent in the path", "GET /v1/coordinators/GROUP/100% HTTP/1.1\r\nHost: x\r\n\r\n", 400, "MALFORMED_REQUEST", "%25"},
		{"space in the path", "GET /v1/coordinators/GROUP/a b HTTP/1.1\r\nHost: x\r\n\r\n", 400, "MALFORMED_REQUEST", "%20"},
		{"control byte in the path", "GET /v1/coordinators/GROUP/a\x01b HTTP/1.1\r\nHost: x\r\n\r\n", 400, "MALFORMED_REQUEST", ""},
		{"no Host", "GET /v1/brokers HTTP/1.1\r\n\r\n", 400, "MALFORMED_REQUEST", "Host"},
		{"headers too large", "GET /v1/brokers HTTP/1.1\r\nHost: x\r\nX-Large: " + strings.Repeat("x", 2*maxHeaderBytes) + "\r\n\r\n", 431, "HEADERS_TOO_LARGE", "/v1/coordinators:find"},
		{"transfer encoding", "POST /v1/coordinators:find HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501, "UNSUPPORTED_HTTP", ""},
		{"an expectation of nobody", "GET /v1/brokers HTTP/1.1\r\nHost: x\r\nExpect: the-worst\r\n\r\n", 417, "UNSUPPORTED_HTTP", "100-continue"},
		{"an expectation of nobody, HTTP/1.0", "GET /v1/brokers HTTP/1.0\r\nExpect: the-worst\r\n\r\n", 417, "UNSUPPORTED_HTTP", "100-continue"},
		{"gibberish", "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400, "MALFORMED_REQUEST", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := exchange(t, r.HTTPAddr(), c.raw)
			require.Equal(t, c.status, got.status)
			require.Equal(t, asJSON, got.header.Get("Content-Type"))
			requireStatus(t, got, c.reason, c.says)
		})
	}
	counted := string(r.doAt(t, r.AdminAddr(), "GET", "/metrics", "").body)
	for status, times := range map[string]int{"400": 5, "431": 1, "501": 1, "other": 2} {
		require.Contains(t, counted, fmt.Sprintf("coordsvc_rest_refusals_total{status=%q} %d\n", status, times))
	}
	require.Contains(t, r.log.String(), "HEADERS_TOO_LARGE")
	// And what it reads but no client of net/http would send.
	got := exchange(t, r.HTTPAddr(), "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")
	require.Equal(t, 204, got.status)
	got = exchange(t, r.HTTPAddr(), "CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n")
	require.Equal(t, 404, got.status)
	requireStatus(t, got, "NOT_FOUND")
	got = exchange(t, r.HTTPAddr(), "GET /v1/brokers HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n")
	require.Equal(t, 200, got.status, "an empty body is none")
	got = exchange(t, r.HTTPAddr(), "GET /v1/brokers HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n1\r\nx\r\n0\r\n\r\n")
	require.Equal(t, 400, got.status)
	requireStatus(t, got, "UNEXPECTED_BODY")
	got = exchange(t, r.HTTPAddr(), "GET http://x/v1/brokers HTTP/1.1\r\nHost: x\r\n\r\n")
	require.Equal(t, 200, got.status)
}

// TestHeadersGivenTwice: a proxy in front may have judged the other one.
func TestHeadersGivenTwice(t *testing.T) {
	r := start(t, &fakeService{})
	const post = "POST /v1/coordinators:find HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 14\r\n"
	const json = "Content-Type: application/json\r\n"
	const body = "\r\n{\"keys\":[\"a\"]}"
	for _, c := range []struct {
		head   string
		status int
		reason string
	}{
		{post + json + "Content-Type: text/plain\r\n" + body, 415, "UNSUPPORTED_MEDIA_TYPE"},
		{post + json + json + body, 415, "UNSUPPORTED_MEDIA_TYPE"},
		{post + json + "Content-Encoding: identity\r\nContent-Encoding: gzip\r\n" + body, 415, "UNSUPPORTED_MEDIA_TYPE"},
		{post + json + "Grpc-Timeout: 5S\r\nGrpc-Timeout: 1S\r\n" + body, 400, "INVALID_ARGUMENT"},
		{"GET /v1/brokers HTTP/1.1\r\nHost: x\r\nHost: y\r\nConnection: close\r\n\r\n", 400, "MALFORMED_REQUEST"},
		{post + json + "Content-Length: 15\r\n" + body, 400, "MALFORMED_REQUEST"},
	} {
		got := exchange(t, r.HTTPAddr(), c.head)
		require.Equal(t, c.status, got.status, "%s", c.head)
		requireStatus(t, got, c.reason)
	}
	require.Equal(t, 200, exchange(t, r.HTTPAddr(), post+json+body).status)
}

// exchange sends raw bytes and reads one answer.
func exchange(t *testing.T, at net.Addr, raw string) answer {
	t.Helper()
	c, err := net.Dial("tcp", at.String())
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
	go func() { _, _ = io.WriteString(c, raw) }()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return answer{resp.StatusCode, resp.Header, body}
}

// TestBodyIsBoundedWhateverItSays sends a body over the limit whose length is not told.
func TestBodyIsBoundedWhateverItSays(t *testing.T) {
	r := start(t, &fakeService{}, func(c *Config) { c.MaxMessageBytes = 4096 })
	endless := io.MultiReader(strings.NewReader(`{"keys":["`), strings.NewReader(strings.Repeat("x", 1<<20)))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.HTTPAddr().String()+"/v1/coordinators:find", endless)
	require.NoError(t, err)
	req.ContentLength = -1
	req.Header.Set("Content-Type", asJSON)
	resp, err := r.http.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, 413, resp.StatusCode)

	// The limit is the same on the other port.
	_, err = r.grpc.FindCoordinators(t.Context(), &coordsvcv1.FindCoordinatorsRequest{Keys: []string{strings.Repeat("x", 5000)}})
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	_, err = r.grpc.FindCoordinators(t.Context(), &coordsvcv1.FindCoordinatorsRequest{Keys: []string{strings.Repeat("x", 4000)}})
	require.NoError(t, err)
}

func TestBodyThatStops(t *testing.T) {
	r := start(t, &fakeService{})
	c, err := net.Dial("tcp", r.HTTPAddr().String())
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "POST /v1/coordinators:find HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"keys\"")
	require.NoError(t, err)
	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, 400, resp.StatusCode)
	body, _ := io.ReadAll(resp.Body)
	requireStatus(t, answer{400, resp.Header, body}, "INCOMPLETE_BODY")
}

// TestBodyThatTrickles: the answer comes when the time is up, however much is missing.
func TestBodyThatTrickles(t *testing.T) {
	r := start(t, &fakeService{}, func(c *Config) { c.bodyTimeout = 500 * time.Millisecond })
	for _, length := range []int{100, netHTTPReads * 2} {
		began := time.Now()
		got := exchange(t, r.HTTPAddr(), fmt.Sprintf("POST /v1/coordinators:find HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{", length))
		require.Less(t, time.Since(began), 5*time.Second)
		require.Equal(t, http.StatusRequestTimeout, got.status)
		requireStatus(t, got, "REQUEST_TOO_SLOW", "within 500ms")
	}
	const chunked = "GET /v1/brokers HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
	began := time.Now()
	got := exchange(t, r.HTTPAddr(), chunked) // a body that may come or not
	require.Less(t, time.Since(began), 5*time.Second)
	require.Equal(t, http.StatusRequestTimeout, got.status)
	got = exchange(t, r.HTTPAddr(), chunked+"zz\r\n")
	require.Equal(t, 400, got.status)
	requireStatus(t, got, "UNEXPECTED_BODY")
	require.Zero(t, r.inFlight.count())
}

// TestHeadersThatMustDoNothing is about doors that grpc-gateway has or had.
func TestHeadersThatMustDoNothing(t *testing.T) {
	var md metadata.MD
	svc := &fakeService{get: func(ctx context.Context, req *coordsvcv1.GetCoordinatorRequest) (*coordsvcv1.GetCoordinatorResponse, error) {
		md, _ = metadata.FromIncomingContext(ctx)
		return &coordsvcv1.GetCoordinatorResponse{Result: found(req.GetKey())}, nil
	}}
	r := start(t, svc)

	got := r.do(t, "POST", "/v1/coordinator?key=a", "", "X-HTTP-Method-Override", "GET", "Content-Type", "application/x-www-form-urlencoded")
	require.Equal(t, 405, got.status)
	got = r.do(t, "GET", "/v1/coordinator?key=a", "", "X-HTTP-Method-Override", "DELETE")
	require.Equal(t, 200, got.status)

	got = r.do(t, "GET", "/v1/coordinator?key=a", "", "Grpc-Metadata-X-User", "admin", "X-User", "admin", "Cookie", "a=b", "X-Request-Id", "abc")
	require.Equal(t, 200, got.status)
	require.Empty(t, md.Get("x-user"))
	require.Equal(t, []string{"abc"}, md.Get("x-request-id"))
	for name := range md {
		require.Contains(t, []string{"x-request-id", "x-forwarded-host", "x-forwarded-for"}, name)
	}
}

func TestGRPCTimeoutHeader(t *testing.T) {
	remaining := make(chan time.Duration, 1)
	svc := &fakeService{get: func(ctx context.Context, req *coordsvcv1.GetCoordinatorRequest) (*coordsvcv1.GetCoordinatorResponse, error) {
		until, ok := ctx.Deadline()
		if !ok {
			return nil, errors.New("no deadline")
		}
		remaining <- time.Until(until)
		return &coordsvcv1.GetCoordinatorResponse{Result: found(req.GetKey())}, nil
	}}
	const most = 10 * time.Second
	r := start(t, svc, func(c *Config) { c.MaxTimeout = most })
	for given, want := range map[string]time.Duration{
		"2500m": 2500 * time.Millisecond, "3S": 3 * time.Second, "99999999H": most, "11S": most, "1M": most, "4000000u": 4 * time.Second,
	} {
		got := r.do(t, "GET", "/v1/coordinator?key=a", "", "Grpc-Timeout", given)
		require.Equal(t, 200, got.status, "%s", got.body)
		require.InDelta(t, want.Seconds(), (<-remaining).Seconds(), 1, "Grpc-Timeout: %s", given)
	}
	for _, given := range []string{"5", "S", "5s", "-5S", "+5S", "0S", "123456789S", "1.5S", "é"} {
		got := r.do(t, "GET", "/v1/coordinator?key=a", "", "Grpc-Timeout", given)
		require.Equal(t, 400, got.status, "Grpc-Timeout: %s", given)
		requireStatus(t, got, "INVALID_ARGUMENT", "Grpc-Timeout")
	}
	// gRPC callers are capped alike.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := r.grpc.GetCoordinator(ctx, &coordsvcv1.GetCoordinatorRequest{Key: "a"})
	require.NoError(t, err)
	require.InDelta(t, most.Seconds(), (<-remaining).Seconds(), 1)
}

func TestRequestID(t *testing.T) {
	r := start(t, &fakeService{get: func(context.Context, *coordsvcv1.GetCoordinatorRequest) (*coordsvcv1.GetCoordinatorResponse, error) {
		return nil, status.Error(codes.Unavailable, "no broker")
	}})
	long := strings.Repeat("x", 128)
	for given, taken := range map[string]bool{
		"abc-123": true, long: true, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01": true,
		"": false, long + "x": false, "a b": false, `a"b`: false, "a\tb": false,
	} {
		for _, target := range []string{"/v1/brokers", "/v1/coordinator?key=a", "/nowhere"} {
			got := r.do(t, "GET", target, "", "X-Request-Id", given)
			ids := got.header.Values("X-Request-Id")
			require.Len(t, ids, 1)
			require.Equal(t, taken, ids[0] == given)
			require.NotEmpty(t, ids[0])
			require.Empty(t, got.header.Get("Grpc-Metadata-X-Request-Id"))
			require.Contains(t, r.log.String(), `"request_id":"`+ids[0]+`"`)
		}
		if given == "a\tb" {
			continue // gRPC clients refuse to send it
		}
		var header metadata.MD
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-request-id", given)
		_, err := r.grpc.ListBrokers(ctx, &coordsvcv1.ListBrokersRequest{}, grpc.Header(&header))
		require.NoError(t, err)
		require.Len(t, header.Get("x-request-id"), 1)
		require.Equal(t, taken, header.Get("x-request-id")[0] == given)

		_, err = r.grpc.GetCoordinator(ctx, &coordsvcv1.GetCoordinatorRequest{}, grpc.Header(&header))
		require.Error(t, err)
		require.Len(t, header.Get("x-request-id"), 1, "a call that fails has it too")
	}
}

func TestMetadataAndPeerOfRESTCalls(t *testing.T) {
	var from string
	var fail bool
	r := start(t, &fakeService{get: func(ctx context.Context, req *coordsvcv1.GetCoordinatorRequest) (*coordsvcv1.GetCoordinatorResponse, error) {
		if p, ok := peer.FromContext(ctx); ok {
			from = p.Addr.String()
		}
		_ = grpc.SetHeader(ctx, metadata.Pairs("x-shard", "7"))
		_ = grpc.SetTrailer(ctx, metadata.Pairs("x-cost", "3"))
		if fail {
			return nil, status.Error(codes.NotFound, "nothing")
		}
		return &coordsvcv1.GetCoordinatorResponse{Result: found(req.GetKey())}, nil
	}})
	got := r.do(t, "GET", "/v1/coordinator?key=a", "")
	require.Equal(t, "7", got.header.Get("Grpc-Metadata-X-Shard"))
	host, _, err := net.SplitHostPort(from)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", host)

	fail = true
	got = r.do(t, "GET", "/v1/coordinator?key=a", "")
	require.Equal(t, 404, got.status)
	require.Equal(t, "7", got.header.Get("Grpc-Metadata-X-Shard"))
}

func TestRetryAfter(t *testing.T) {
	var delay time.Duration
	r := start(t, &fakeService{get: func(context.Context, *coordsvcv1.GetCoordinatorRequest) (*coordsvcv1.GetCoordinatorResponse, error) {
		return nil, newStatus(codes.ResourceExhausted, "OVERLOADED", "too many keys are waiting",
			&errdetails.RetryInfo{RetryDelay: durationpb.New(delay)}).Err()
	}})
	for d, want := range map[time.Duration]string{
		0: "1", 100 * time.Millisecond: "1", time.Second: "1", 1001 * time.Millisecond: "2", time.Minute: "60",
	} {
		delay = d
		got := r.do(t, "GET", "/v1/coordinator?key=a", "")
		require.Equal(t, 429, got.status)
		require.Equal(t, want, got.header.Get("Retry-After"))
		requireStatus(t, got, "OVERLOADED")
	}
}

func TestOpenAPIIsServed(t *testing.T) {
	r := start(t, &fakeService{})
	got := r.do(t, "GET", "/openapi.json", "")
	require.Equal(t, 200, got.status)
	require.Equal(t, openapi.JSON, got.body)
}

// TestRoutesAreTheOpenAPI compares the table of routes with the document that is
// generated from the .proto and its REST rules.
func TestRoutesAreTheOpenAPI(t *testing.T) {
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name, In string }
		}
	}
	require.NoError(t, json.Unmarshal(openapi.JSON, &doc))
	served := 0
	for _, r := range routes(true) {
		if r.page != nil {
			continue
		}
		served++
		documented := strings.NewReplacer("{key_type}", "{keyType}").Replace(r.path)
		operation, ok := doc.Paths[documented][strings.ToLower(r.method)]
		require.True(t, ok, "%s %s is not in the document", r.method, documented)
		var query []string
		for _, p := range operation.Parameters {
			if p.In == "query" {
				query = append(query, p.Name)
			}
		}
		if r.method == http.MethodGet {
			require.ElementsMatch(t, query, r.params.names, r.path)
		}
	}
	operations := 0
	for _, methods := range doc.Paths {
		operations += len(methods)
	}
	require.Equal(t, operations, served)
}

// TestFaultsOfTheFrontAreAnswers: also what cannot happen ends in JSON.
func TestFaultsOfTheFrontAreAnswers(t *testing.T) {
	log := new(logBuffer)
	logger := slog.New(slog.NewJSONHandler(log, nil))
	cfg := DefaultConfig()
	cfg.MaxMemory = 1 << 30
	f, err := newFront(cfg, newInProcess(&fakeService{}, chain(nil).unary()), openGate(t), newLimiter(cfg), new(atomic.Bool), logger)
	require.NoError(t, err)
	ask := func(target string) answer {
		w, ok := send(t, f, "GET", target, "")
		require.True(t, ok)
		return answer{w.Code, w.Header(), w.Body.Bytes()}
	}

	for _, r := range f.routes {
		r.gatewayPath = "/nowhere"
	}
	got := ask("/v1/brokers")
	require.Equal(t, 500, got.status)
	requireStatus(t, got, "INTERNAL", got.header.Get("X-Request-Id"))
	require.Contains(t, log.String(), "do not agree")

	f.gateway = nil
	got = ask("/v1/brokers")
	require.Equal(t, 500, got.status)
	requireStatus(t, got, "INTERNAL", got.header.Get("X-Request-Id"))
	require.Contains(t, log.String(), "panic in a REST request")
}

func TestStatusesThatJSONCannotHold(t *testing.T) {
	foreign := status.FromProto(&spb.Status{Code: 14, Message: "no broker", Details: []*anypb.Any{{TypeUrl: "type.googleapis.com/a.B"}}})
	require.JSONEq(t, `{"code":14,"message":"no broker","details":[]}`, string(statusJSON(foreign)))

	r := start(t, &fakeService{get: func(context.Context, *coordsvcv1.GetCoordinatorRequest) (*coordsvcv1.GetCoordinatorResponse, error) {
		return nil, status.Error(codes.Unavailable, "the broker says \xff")
	}})
	got := r.do(t, "GET", "/v1/coordinator?key=a", "")
	require.Equal(t, 503, got.status)
	requireStatus(t, got, "UNAVAILABLE", "the broker says \ufffd")
	_, err := r.grpc.GetCoordinator(t.Context(), &coordsvcv1.GetCoordinatorRequest{})
	require.Equal(t, "UNAVAILABLE", reasonOf(err))
	require.Equal(t, "the broker says \ufffd", status.Convert(err).Message())
}

func TestKeysAreNotLogged(t *testing.T) {
	r := start(t, &fakeService{get: func(context.Context, *coordsvcv1.GetCoordinatorRequest) (*coordsvcv1.GetCoordinatorResponse, error) {
		return nil, status.Error(codes.InvalidArgument, "key sesame is bad")
	}})
	for _, target := range []string{
		"/v1/coordinators/GROUP/sesame", "/v1/coordinator?key=sesame", "/v1/coordinators?keys=sesame",
		"/v1/coordinators/GROUP/sesame/x", "/v1/coordinator?keys=sesame", "/v1/coordinator?sesame=1", "/v1/coordinators/sesame/x",
	} {
		r.do(t, "GET", target, "")
	}
	r.do(t, "POST", "/v1/coordinators:find", `{"keys":["sesame"],"sesame":1}`, "Content-Type", asJSON)
	_, err := r.grpc.GetCoordinator(t.Context(), &coordsvcv1.GetCoordinatorRequest{Key: "sesame"})
	require.Error(t, err)
	require.Contains(t, r.log.String(), `"reason":"UNKNOWN_FIELD"`)
	require.Contains(t, r.log.String(), `"keys":1`)
	require.NotContains(t, r.log.String(), "sesame")
}

// goneWriter is a client that has gone.
type goneWriter struct{ *httptest.ResponseRecorder }

func (goneWriter) Write([]byte) (int, error) { return 0, syscall.ECONNRESET }

// TestClientThatGoesAmidItsAnswer: it is no line on stderr, past the log, and one in the
// log only for those who look.
func TestClientThatGoesAmidItsAnswer(t *testing.T) {
	r := start(t, &fakeService{})
	for level, lines := range map[slog.Level]int{slog.LevelInfo: 0, slog.LevelDebug: 1} {
		r.level.Set(level)
		r.log.reset()
		r.front.ServeHTTP(goneWriter{httptest.NewRecorder()}, httptest.NewRequest(http.MethodGet, "/v1/brokers", http.NoBody))
		require.Equal(t, lines, strings.Count(r.log.String(), `"msg":"a REST answer did not arrive"`), r.log.String())
	}
}
