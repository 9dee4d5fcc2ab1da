package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/server"
)

func found(key string, id int32, host string) *coordsvcv1.CoordinatorResult {
	return &coordsvcv1.CoordinatorResult{
		Key: key, ApiVersion: 6, AnsweredBy: "kafka-1.example:9092",
		Outcome: &coordsvcv1.CoordinatorResult_Coordinator{Coordinator: &coordsvcv1.Coordinator{NodeId: id, Host: host, Port: 9092}},
	}
}

func failed(key, reason, message string) *coordsvcv1.CoordinatorResult {
	return &coordsvcv1.CoordinatorResult{
		Key:     key,
		Outcome: &coordsvcv1.CoordinatorResult_Error{Error: &coordsvcv1.LookupError{Reason: reason, Message: message, Retriable: true}},
	}
}

// sampleParts are two answers of one bulk lookup, with 2 failures.
var sampleParts = [][]*coordsvcv1.CoordinatorResult{
	{
		found("orders", 2, "kafka-2.example"),
		found("payments", 1, "kafka-1.example"),
		found("", 1, "kafka-1.example"),
		found(" leading space", 2, "2001:db8::2"),
		failed("a<b>&\u2028c", "COORDINATOR_NOT_AVAILABLE", "no coordinator for a<b>; retry"),
	},
	{
		found(strings.Repeat("long-", 20), 1, "kafka-1.example"),
		found("\x1b[31mred", 10, "evil\x1b[2J.example"),
		failed("größe", "BROKER_UNREACHABLE", "kafka-3.example:9092: connection\nrefused"),
	},
}

func TestTable(t *testing.T) {
	for name, s := range map[string]style{"table.txt": {}, "table-colours.txt": {colours: true}} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			p := newPrinter("table", &out, s)
			for _, part := range sampleParts {
				p.results(part)
			}
			p.end(2)
			requireFile(t, name, out.String())
			if !s.colours {
				require.NotContains(t, out.String(), "\x1b", "a key or a broker must not reach the terminal's controls")
			}
		})
	}
}

func TestTableOfOneFailure(t *testing.T) {
	var out bytes.Buffer
	p := newPrinter("table", &out, style{})
	p.results([]*coordsvcv1.CoordinatorResult{failed("k", "NOT_IN_ANSWER", "the broker's answer left the key out")})
	p.end(1)
	require.Equal(t, "KEY  COORDINATOR\nk    NOT_IN_ANSWER: the broker's answer left the key out\n\nKEYS  BROKER\n   1  failed\n", out.String())
}

// What is printed part by part is what REST answers to one call with all keys.
func TestJSONIsTheAnswerOfREST(t *testing.T) {
	var out bytes.Buffer
	p := newPrinter("json", &out, style{})
	whole := &coordsvcv1.FindCoordinatorsResponse{Failed: 2}
	for _, part := range sampleParts {
		p.results(part)
		whole.Results = append(whole.Results, part...)
	}
	p.end(2)
	want, err := server.MarshalJSON(whole)
	require.NoError(t, err)
	require.Equal(t, string(want)+"\n", out.String())
}

func TestDisplayText(t *testing.T) {
	for in, want := range map[string]string{
		"":             "",
		"plain":        "plain",
		`say "hi"`:     `say "hi"`,
		"größe 日本":     "größe 日本",
		"a\nb":         `a\nb`,
		"\"\x00\"":     `"\x00"`,
		"\u202eevil":   `\u202eevil`,
		"bad \xff utf": `bad \xff utf`,
	} {
		require.Equal(t, want, displayText(in))
	}
}

func TestDisplayKey(t *testing.T) {
	for in, want := range map[string]string{"": `""`, "a b": "a b", " a": `" a"`, "a\t": `"a\t"`, "a:b:0": "a:b:0", "\xff": `"\xff"`, `"a"`: `"a"`} {
		require.Equal(t, want, displayKey(in))
	}
}

func TestThousands(t *testing.T) {
	for want, n := range map[string]int{"0": 0, "999": 999, "1,000": 1000, "12,345": 12345, "1,234,567": 1234567} {
		require.Equal(t, want, thousands(n))
	}
}

func TestColoursAreForTerminals(t *testing.T) {
	require.False(t, styleFor(new(bytes.Buffer), nil).colours)
	require.True(t, isSet([]string{"NO_COLOR=1"}, "NO_COLOR"))
	require.False(t, isSet([]string{"NO_COLOR="}, "NO_COLOR"), "an empty NO_COLOR says nothing (no-color.org)")
	require.True(t, isSet([]string{"TERM=dumb"}, "TERM=dumb"))
	require.False(t, isSet([]string{"TERM=xterm"}, "TERM=dumb"))
}
