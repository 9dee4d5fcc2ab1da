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

// protocolReasons are the reasons that a request can meet before it is a question.
// A test of internal/server checks that each of its reasons stands in the document.
const protocolReasons = `
What is wrong with the request as such, or with who sends it:

| reason | HTTP | what |
|---|---|---|
| INVALID_ARGUMENT | 400 | a field is not as it must be; the violations name it |
| UNKNOWN_FIELD | 400 | a name in the query or the body that does not exist |
| MISSING_FIELD | 400 | a name that must be there |
| INVALID_QUERY, INVALID_PATH | 400 | not UTF-8, a stray percent sign, or a query where the body says all |
| EMPTY_BODY, INCOMPLETE_BODY, TRAILING_DATA, UNEXPECTED_BODY | 400 | a body that is not one JSON object, or has no business there |
| MALFORMED_REQUEST, UNSUPPORTED_HTTP | 400, 417, 501, 505 | no HTTP request, or no gRPC message, that can be read |
| TLS_REQUIRED | 400 | plain HTTP at the TLS port |
| NOT_FOUND, METHOD_NOT_ALLOWED | 404, 405 | no such path; no such method there (see Allow) |
| REQUEST_TOO_LARGE, HEADERS_TOO_LARGE | 413, 431 | over the limit, which the message names |
| REQUEST_TOO_SLOW | 408 | the request did not arrive whole in time |
| UNSUPPORTED_MEDIA_TYPE | 415 | the body of a POST is application/json |
| UNAUTHENTICATED, PERMISSION_DENIED, ISSUER_UNREACHABLE | 401, 403, 503 | who is calling: see [security.md](security.md) |
| CANCELLED | 499 | the caller left before the answer |
| TOO_MANY_STREAMS | – | a gRPC connection with too many streams of health or reflection |
| STOPPING | 503 | the instance stops; another will answer |
`

// errorDocs is the text of docs/errors.md, made from the error contract.
func errorDocs() string {
	var b strings.Builder
	b.WriteString(`# Errors

<!-- Generated from the error contract in service/reasons.go by "make generate". Do not edit. -->

Each key of a FindCoordinators carries its own error; the failure of a GetCoordinator is the failure of the call. Both
have a **reason** to program against, a message for people, and say whether a retry may help. Statuses carry a
` + "`google.rpc.ErrorInfo`" + ` with the reason, domain ` + "`coordsvc`" + `, and retriable ones a ` + "`google.rpc.RetryInfo`" + ` (over REST also
` + "`Retry-After`" + `). coordsvc itself retries retriable outcomes within the call's timeout; what arrives is the last that was said.
Where an answer has thousands of errors only the first of them, and the first of each reason, are explained in full: a gRPC client
takes 4 MiB unless it is told otherwise. If keys are longer than some 100 bytes, let it take more.

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
	b.WriteString(protocolReasons)
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
