package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/coordsvc/coordsvc/internal/config"
)

// newLogger logs as the settings say.
func newLogger(w io.Writer, settings config.Log) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(settings.Level)); err != nil {
		return nil, fmt.Errorf("log.level: %w", err)
	}
	options := &slog.HandlerOptions{Level: level}
	if settings.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return slog.New(slog.NewTextHandler(w, options)), nil
}

// newServiceLogger is newLogger for those that log a line a call: lines that come in
// quick succession are written together. The end of ctx ends that, and so must the
// caller, with end.
func newServiceLogger(ctx context.Context, w io.Writer, settings config.Log) (logger *slog.Logger, end func(), err error) {
	paced := newPacedWriter(w)
	logger, err = newLogger(paced, settings)
	if err != nil {
		return nil, nil, err
	}
	context.AfterFunc(ctx, paced.end) // a second signal ends the process at once
	return slog.New(promptHandler{logger.Handler(), paced}), paced.end, nil
}

const (
	// logPace is how long lines are gathered that follow another.
	logPace = 20 * time.Millisecond
	// mostGathered is how many bytes of lines are gathered.
	mostGathered = 64 << 10
)

// A pacedWriter writes a line at once, and then no more until logPace has passed, or
// mostGathered have come: a system call a line, which wakes whoever reads the log, is a sixth
// of what a call of one key costs.
type pacedWriter struct {
	mu       sync.Mutex
	w        io.Writer
	gathered []byte
	pause    *time.Timer
	pausing  bool
	ended    bool
}

func newPacedWriter(w io.Writer) *pacedWriter {
	p := &pacedWriter{w: w}
	p.pause = time.AfterFunc(logPace, p.paused)
	p.pause.Stop()
	return p
}

// Write implements [io.Writer] for whole lines.
func (p *pacedWriter) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return p.w.Write(line)
	}
	if !p.pausing {
		p.pausing = true
		p.pause.Reset(logPace)
		return p.w.Write(line)
	}
	p.gathered = append(p.gathered, line...)
	if len(p.gathered) < mostGathered {
		return len(line), nil
	}
	return len(line), p.write()
}

// write writes what is gathered. p.mu is held.
func (p *pacedWriter) write() error {
	if len(p.gathered) == 0 {
		return nil
	}
	_, err := p.w.Write(p.gathered)
	p.gathered = p.gathered[:0]
	return err
}

// paused ends a pause; if lines came in it, another begins.
func (p *pacedWriter) paused() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pausing = len(p.gathered) > 0 && !p.ended
	if p.pausing {
		p.pause.Reset(logPace)
	}
	_ = p.write() // as slog does with errors
}

// flush writes what is gathered now.
func (p *pacedWriter) flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.write()
}

// end has every line written at once from now on.
func (p *pacedWriter) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	_ = p.write()
}

// A promptHandler has warnings and errors written at once, after the lines before them.
type promptHandler struct {
	slog.Handler
	out *pacedWriter
}

// Handle implements [slog.Handler].
func (h promptHandler) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r)
	if r.Level > slog.LevelInfo && err == nil {
		err = h.out.flush()
	}
	return err
}

// WithAttrs implements [slog.Handler].
func (h promptHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return promptHandler{h.Handler.WithAttrs(attrs), h.out}
}

// WithGroup implements [slog.Handler].
func (h promptHandler) WithGroup(name string) slog.Handler {
	return promptHandler{h.Handler.WithGroup(name), h.out}
}
