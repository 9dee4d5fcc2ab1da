package service

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/code"

	"github.com/coordsvc/coordsvc/kafkawire"
)

var update = flag.Bool("update", false, "write the generated documents")

func TestDocs(t *testing.T) {
	const path = "../docs/errors.md"
	want := errorDocs()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
	}
	have, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(have), "docs/errors.md is not what the error contract says: run make generate")
}

func TestOperationsHasASectionForEveryReason(t *testing.T) {
	text, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	for _, c := range Contracts() {
		require.Contains(t, string(text), "\n### "+string(c.Reason)+"\n")
	}
}

// errorDocs is the text of docs/errors.md, made from the error contract.
func errorDocs() string {
	var b strings.Builder
	b.WriteString(`# Errors

<!-- Generated from the error contract in service/reasons.go by "make generate". Do not edit. -->

Each key of a FindCoordinators carries its own error; the failure of a GetCoordinator is the failure of the call. Both
have a **reason** to program against, a message for people, and say whether a retry may help. Statuses carry a
` + "`google.rpc.ErrorInfo`" + ` with the reason, domain ` + "`coordsvc`" + `, and retriable ones a ` + "`google.rpc.RetryInfo`" + ` (over REST also
` + "`Retry-After`" + `). coordsvc itself retries retriable outcomes within the call's timeout; what arrives is the last that was said.

| reason | Kafka code | retriable | gRPC | HTTP |
|---|---|---|---|---|
`)
	for _, c := range Contracts() {
		number := ""
		if c.Kafka {
			number = fmt.Sprint(int16(c.Code))
		}
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s | %s | %s | %d |\n", c.Reason, strings.ToLower(string(c.Reason)), number, yesNo(c.Retriable), code.Code(c.GRPC), c.HTTP)
	}
	other := ContractOfCode(kafkawire.ErrUnknownTopicOrPartition)
	fmt.Fprintf(&b, "| any other Kafka error: its Kafka name, or `KAFKA_<code>` | the code | as Kafka says | %s | %d |\n", code.Code(other.GRPC), other.HTTP)
	b.WriteString("\nA request that cannot be asked at all is `INVALID_ARGUMENT` (400) as a whole, with a `google.rpc.BadRequest` that names each bad field.\n")
	for _, c := range Contracts() {
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n\nWhat to do: %s.\n", c.Reason, sentence(c.Happened), docFill(c.Do))
	}
	return b.String()
}

func sentence(s string) string {
	s = docFill(s)
	return strings.ToUpper(s[:1]) + s[1:]
}

func docFill(s string) string {
	return strings.NewReplacer("%[1]s", "the internal topic", "%[2]s", "`<key>`").Replace(s)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
