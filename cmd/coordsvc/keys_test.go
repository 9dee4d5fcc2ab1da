package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/coordsvc/coordsvc/kafkawire"
)

func TestScanKeys(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		want     []askedKey
	}{
		{"nothing", "", nil},
		{"one", "a\n", []askedKey{{"a", 1}}},
		{"no newline at the end", "a\nb", []askedKey{{"a", 1}, {"b", 2}}},
		{"blank lines", "\na\n\n\r\nb\n\n", []askedKey{{"a", 2}, {"b", 5}}},
		{"carriage return at the end", "a\r\nb\r", []askedKey{{"a", 1}, {"b", 2}}},
		{"byte order mark", "\ufeffa\r\n\ufeffb\n", []askedKey{{"a", 1}, {"\ufeffb", 2}}},
		{"carriage return inside", "a\rb\r\r\n", []askedKey{{"a\rb\r", 1}}},
		{"spaces are part of the key", " a b \n\t\n", []askedKey{{" a b ", 1}, {"\t", 2}}},
		{"dashes and commas", "-\n--x\na,b\n", []askedKey{{"-", 1}, {"--x", 2}, {"a,b", 3}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := scanKeys(iotest.OneByteReader(strings.NewReader(tc.in)))
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
	_, err := scanKeys(strings.NewReader("a\n" + strings.Repeat("x", maxLine+1)))
	require.EqualError(t, err, "line 2 of standard input is longer than any key; give one key a line")
	_, err = scanKeys(iotest.ErrReader(errors.New("the disk is gone")))
	require.EqualError(t, err, "reading standard input: the disk is gone")
}

func TestCollectKeys(t *testing.T) {
	got, err := collectKeys(t.Context(), []string{"a", "-", ""}, strings.NewReader("b\nc\n"))
	require.NoError(t, err)
	require.Equal(t, []askedKey{{"a", 0}, {"b", 1}, {"c", 2}, {"", 0}}, got)
}

// Ctrl-C does not wait for a standard input that says nothing.
func TestReadingKeysIsInterrupted(t *testing.T) {
	in, held := io.Pipe()
	t.Cleanup(func() { held.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := collectKeys(ctx, []string{"-"}, in)
	require.ErrorIs(t, err, errInterrupted)
}

func TestCheckKeys(t *testing.T) {
	long := strings.Repeat("k", kafkawire.MaxKeyLength)
	require.NoError(t, checkKeys(kafkawire.KeyTypeGroup, []askedKey{{"", 0}, {"\t", 1}, {long, 2}}))

	err := checkKeys(kafkawire.KeyTypeGroup, []askedKey{{"fine", 1}, {long + "k", 2}})
	require.ErrorContains(t, err, "line 2 of standard input: key \"kkkk")
	require.ErrorContains(t, err, "(32768 bytes) is too long; Kafka takes at most 32767 bytes")
	require.Less(t, len(err.Error()), 300, "a long key is not printed whole")
	err = checkKeys(kafkawire.KeyTypeGroup, []askedKey{{"\xff", 0}, {"\xfe", 0}})
	require.EqualError(t, err, "2 keys are wrong:\n  key \"\\xff\" is not valid UTF-8\n  key \"\\xfe\" is not valid UTF-8")

	var many []askedKey
	for line := range 2000 {
		many = append(many, askedKey{"no-share-partition", line + 1})
	}
	err = checkKeys(kafkawire.KeyTypeShare, many)
	require.ErrorContains(t, err, "2,000 keys are wrong; the first:\n  line 1 of standard input: ")
	require.Equal(t, maxBadKeys, strings.Count(err.Error(), "\n"))
	require.ErrorContains(t, checkKeys(kafkawire.KeyTypeShare, many[:1]), "to look up a share group, ask with key type GROUP") // franz-go#1330
}

func TestCoordinatorIDs(t *testing.T) {
	keys := []askedKey{{key: "2147483646"}, {key: "2147483647"}, {key: "2147483646"}, {key: "2147483648"}, {key: "2146483646"}, {key: "orders-2147483646"}, {key: "1"}}
	require.Equal(t, []int{2147483646, 2147483647}, coordinatorIDs(keys))
	require.Equal(t, "2147483646 in client logs means broker 1: it is the connection to that broker as coordinator (2147483647 minus the broker's id), not a key",
		coordinatorIDHint(2147483646))
}
