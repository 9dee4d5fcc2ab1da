package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/coordsvc/coordsvc/internal/config"
)

// writes are what was written, a piece each time.
type writes struct {
	mu     sync.Mutex
	pieces []string
}

func (w *writes) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pieces = append(w.pieces, string(p))
	return len(p), nil
}

func (w *writes) taken() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	pieces := w.pieces
	w.pieces = nil
	return pieces
}

func TestPacedWriter(t *testing.T) {
	type step struct {
		wait  time.Duration
		lines string // a letter each
		want  []string
	}
	for name, steps := range map[string][]step{
		"a line now and then is never late": {
			{0, "a", []string{"a"}}, {logPace, "b", []string{"b"}}, {time.Hour, "c", []string{"c"}},
		},
		"what follows is written together": {
			{0, "abc", []string{"a"}}, {logPace / 2, "d", nil}, {logPace / 2, "", []string{"bcd"}},
			{logPace / 2, "ef", nil}, {logPace / 2, "", []string{"ef"}},
			{2 * logPace, "g", []string{"g"}},
		},
		"no more than so many bytes": {
			{0, "a" + strings.Repeat("b", mostGathered+1), []string{"a", strings.Repeat("b", mostGathered)}},
			{logPace, "", []string{"b"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &writes{}
				p := newPacedWriter(w)
				for i, s := range steps {
					time.Sleep(s.wait)
					synctest.Wait()
					for _, c := range s.lines {
						n, err := p.Write([]byte(string(c)))
						require.NoError(t, err)
						require.Equal(t, 1, n)
					}
					require.Equal(t, s.want, w.taken(), "step %d", i)
				}
				p.end()
			})
		})
	}
}

func TestServiceLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writes{}
		ctx, cancel := context.WithCancel(t.Context())
		logger, end, err := newServiceLogger(ctx, w, config.Log{Level: "info", Format: "text"})
		require.NoError(t, err)
		defer end()
		written := func() (messages []string) {
			for _, piece := range w.taken() {
				for line := range strings.Lines(piece) {
					_, message, _ := strings.Cut(line, " msg=")
					messages = append(messages, strings.TrimSpace(message))
				}
			}
			return messages
		}
		group := logger.With("n", 1).WithGroup("g")
		logger.Info("one")
		require.Equal(t, []string{"one"}, written())
		logger.Info("two")
		group.Info("three", "m", 2)
		require.Empty(t, written())
		group.Warn("four", "m", 2)
		require.Equal(t, []string{"two", "three n=1 g.m=2", "four n=1 g.m=2"}, written(), "a warning is written at once, and does not overtake")
		logger.Debug("nothing")
		logger.Info("five")
		require.Empty(t, written())
		cancel()
		require.Equal(t, []string{"five"}, written(), "nothing is kept back while the service stops")
		logger.Info("six")
		logger.Info("seven")
		require.Equal(t, []string{"six", "seven"}, written())
	})
	_, _, err := newServiceLogger(t.Context(), &writes{}, config.Log{Level: "loud"})
	require.ErrorContains(t, err, "log.level")
}

func TestServiceLoggerLosesNothing(t *testing.T) {
	w := &writes{}
	logger, end, err := newServiceLogger(t.Context(), w, config.Log{Level: "info", Format: "json"})
	require.NoError(t, err)
	const loggers, lines = 8, 5_000
	var wg sync.WaitGroup
	for i := range loggers {
		wg.Go(func() {
			for j := range lines {
				level := slog.LevelInfo
				if j%1_000 == 0 {
					level = slog.LevelWarn
				}
				logger.Log(t.Context(), level, fmt.Sprintf("%d:%d", i, j))
			}
		})
	}
	wg.Wait()
	end()
	next := make([]int, loggers)
	total := 0
	for line := range strings.Lines(strings.Join(w.pieces, "")) {
		var i, j int
		_, message, _ := strings.Cut(line, `"msg":"`)
		_, err := fmt.Sscanf(message, "%d:%d", &i, &j)
		require.NoError(t, err, "%q", line)
		require.Equal(t, next[i], j, "in order")
		next[i]++
		total++
	}
	require.Equal(t, loggers*lines, total)
	require.Less(t, len(w.pieces), total/10)
}
