package server

import (
	"bytes"
	"context"
	"log"
	"log/slog"
)

// errorLog is where net/http writes what goes wrong outside of handlers. What one
// client does is of no interest above debug level. That no connection can be
// accepted, most likely for want of file descriptors, is; net/http pauses up to a
// second between such lines.
func errorLog(logger *slog.Logger) *log.Logger { return log.New(httpErrors{logger}, "", 0) }

type httpErrors struct{ logger *slog.Logger }

func (e httpErrors) Write(line []byte) (int, error) {
	level := slog.LevelDebug
	if bytes.Contains(line, []byte("Accept error")) {
		level = slog.LevelWarn
	}
	e.logger.Log(context.Background(), level, string(bytes.TrimSpace(line)))
	return len(line), nil
}
