package main

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

func TestArgumentsLast(t *testing.T) {
	app, err := kong.New(newCLI())
	require.NoError(t, err)
	for in, want := range map[string]string{
		"":                                    "",
		"--version":                           "--version",
		"serve --log-level info":              "serve --log-level info",
		"lookup":                              "lookup",
		"lookup --timeout 1s":                 "lookup --timeout 1s",
		"lookup a --timeout 1s b":             "lookup --timeout 1s -- a b",
		"lookup a -o json b -t=share":         "lookup -o json -t=share -- a b",
		"lookup a -ojson - --help":            "lookup -ojson --help -- a -",
		"lookup a -- -b --timeout":            "lookup -- a -b --timeout",
		"lookup -- -- a":                      "lookup -- -- a",
		"lookup a --kafka-discover-brokers b": "lookup --kafka-discover-brokers -- a b",
		"lookup a --unknown b":                "lookup --unknown -- a b",
		"lookup a --timeout":                  "lookup --timeout -- a",
		"--version lookup a -o json":          "--version lookup -o json -- a",
		"nothing a --b":                       "nothing a --b",
	} {
		t.Run(in, func(t *testing.T) {
			require.Equal(t, strings.Fields(want), append([]string{}, argumentsLast(app.Model, strings.Fields(in))...))
		})
	}
}

func TestSwitchWithWord(t *testing.T) {
	app, err := kong.New(newCLI())
	require.NoError(t, err)
	for in, refused := range map[string]bool{
		"serve --http-docs false":                                   true,
		"serve --http-docs TRUE":                                    true,
		"lookup a --kafka-discover-brokers false":                   true,
		"lookup --timeout 1s --kafka-tls-enabled true b":            true,
		"lookup --kafka-discover-brokers=false true":                false,
		"lookup --kafka-discover-brokers orders true":               false,
		"lookup --kafka-discover-brokers -- false":                  false,
		"lookup -- --kafka-discover-brokers false":                  false,
		"lookup --kafka-client-id --kafka-discover-brokers -- true": false,
		"lookup true false":                                         false,
		"serve --log-level true":                                    false,
		"nothing --http-docs false":                                 false,
		"--http-docs false":                                         false,
		"":                                                          false,
	} {
		t.Run(in, func(t *testing.T) {
			require.Equal(t, refused, switchWithWord(app.Model, strings.Fields(in)) != nil)
		})
	}
}
