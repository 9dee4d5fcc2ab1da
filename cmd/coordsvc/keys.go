package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/coordsvc/coordsvc/kafkawire"
	"github.com/coordsvc/coordsvc/service"
)

const (
	// maxInputKeys bounds the memory that standard input can take.
	maxInputKeys = 5_000_000
	// maxLine is how much of one line is read. A key can have 32,767 bytes.
	maxLine = 1 << 20
)

// askedKey is a key and where it was given, for error messages.
type askedKey struct {
	key  string
	line int // of standard input; 0 for an argument
}

// collectKeys returns the keys of the arguments, with those of standard input in
// the place of "-".
func collectKeys(ctx context.Context, args []string, stdin io.Reader) ([]askedKey, error) {
	if len(args) == 0 {
		return nil, failf(exitUsage, "no key is given; name keys, or - to read them from standard input")
	}
	var keys []askedKey
	read := false
	for _, arg := range args {
		if arg != "-" {
			keys = append(keys, askedKey{key: arg})
			continue
		}
		if read {
			return nil, failf(exitUsage, `"-" is given twice; standard input can be read once`)
		}
		read = true
		lines, err := readKeys(ctx, stdin)
		if err != nil {
			return nil, err
		}
		keys = append(keys, lines...)
	}
	if len(keys) == 0 {
		return nil, failf(exitUsage, "standard input has no key; give one key a line")
	}
	return keys, nil
}

// readKeys reads one key a line. The bytes of the line are the key, but for what
// Windows leaves: a carriage return at the end, a byte order mark before the first.
// Blank lines are skipped.
// It returns when ctx ends, though the reading may go on.
func readKeys(ctx context.Context, stdin io.Reader) ([]askedKey, error) {
	type outcome struct {
		keys []askedKey
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		keys, err := scanKeys(stdin)
		done <- outcome{keys, err}
	}()
	select {
	case o := <-done:
		return o.keys, o.err
	case <-ctx.Done():
		return nil, errInterrupted
	}
}

func scanKeys(r io.Reader) ([]askedKey, error) {
	var keys []askedKey
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	line := 0
	for lines.Scan() {
		line++
		text := lines.Text()
		if line == 1 {
			text = strings.TrimPrefix(text, "\ufeff")
		}
		if text == "" {
			continue
		}
		if len(keys) == maxInputKeys {
			return nil, failf(exitUsage, "standard input has more than %s keys; give them in parts", thousands(maxInputKeys))
		}
		keys = append(keys, askedKey{text, line})
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, failf(exitUsage, "line %d of standard input is longer than any key; give one key a line", line+1)
	case err != nil:
		return nil, failf(exitFailed, "reading standard input: %s", err)
	}
	return keys, nil
}

// place begins an error message about the key, which names the key itself.
func (k askedKey) place() string {
	if k.line == 0 {
		return ""
	}
	return fmt.Sprintf("line %d of standard input: ", k.line)
}

// maxBadKeys is how many bad keys are named.
const maxBadKeys = 5

// checkKeys refuses keys that cannot be asked for, before anything is dialled.
func checkKeys(keyType kafkawire.KeyType, keys []askedKey) error {
	var bad []string
	for _, k := range keys {
		if err := service.CheckKey(keyType, k.key); err != nil {
			bad = append(bad, k.place()+displayText(err.Error()))
		}
	}
	switch named := bad[:min(len(bad), maxBadKeys)]; {
	case len(bad) == 0:
		return nil
	case len(bad) == 1:
		return failf(exitUsage, "%s", bad[0])
	case len(bad) > maxBadKeys:
		return failf(exitUsage, "%s keys are wrong; the first:\n  %s", thousands(len(bad)), strings.Join(named, "\n  "))
	default:
		return failf(exitUsage, "%d keys are wrong:\n  %s", len(bad), strings.Join(named, "\n  "))
	}
}

// coordinatorIDs returns the keys that look like the id of a connection to a
// coordinator, as client logs show it, each once.
func coordinatorIDs(keys []askedKey) []int {
	const (
		highest = 1<<31 - 1
		lowest  = highest - 1_000_000 // broker ids above a million are not seen
	)
	var ids []int
	for _, k := range keys {
		n, err := strconv.Atoi(k.key)
		if err == nil && lowest <= n && n <= highest && !slices.Contains(ids, n) {
			ids = append(ids, n)
		}
		if len(ids) == maxBadKeys {
			break
		}
	}
	return ids
}

func coordinatorIDHint(id int) string {
	return fmt.Sprintf("%d in client logs means broker %d: it is the connection to that broker as coordinator (2147483647 minus the broker's id), not a key", id, 1<<31-1-id)
}
