package main

import (
	"fmt"
	"io"
	"time"
)

// progress shows on one line of a terminal how far a lookup is, while it waits for
// an answer. Answers are printed when the line is gone.
type progress struct {
	w       io.Writer
	visible bool
	total   int
	began   time.Time
}

const (
	// progressAfter is how long a lookup may take before it says how far it is.
	progressAfter = 500 * time.Millisecond
	progressEvery = 200 * time.Millisecond
	// countedKeys is the least number of keys that is worth counting; for fewer the line
	// says only that it waits.
	countedKeys = 100
)

func newProgress(w io.Writer, atTerminal bool, total int) *progress {
	return &progress{w: w, visible: atTerminal, total: total, began: time.Now()}
}

// waiting shows the line until the function that it returns is called. That
// function clears the line before it returns.
func (p *progress) waiting(done, failed int) func() {
	if !p.visible {
		return func() {}
	}
	stopped, cleared := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(cleared)
		p.show(done, failed, stopped)
	}()
	return func() {
		close(stopped)
		<-cleared
	}
}

func (p *progress) show(done, failed int, stopped <-chan struct{}) {
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	shown := false
	for {
		select {
		case <-ticker.C:
			if elapsed := time.Since(p.began); elapsed >= progressAfter {
				fmt.Fprint(p.w, "\r\x1b[K"+progressLine(done, p.total, failed, elapsed))
				shown = true
			}
		case <-stopped:
			if shown {
				fmt.Fprint(p.w, "\r\x1b[K")
			}
			return
		}
	}
}

func progressLine(done, total, failed int, elapsed time.Duration) string {
	if total < countedKeys {
		return fmt.Sprintf("waiting for an answer, %ds", int(elapsed.Seconds()))
	}
	line := fmt.Sprintf("%s of %s keys looked up", thousands(done), thousands(total))
	if failed > 0 {
		line += fmt.Sprintf(", %s failed", thousands(failed))
	}
	return line + fmt.Sprintf(", %ds", int(elapsed.Seconds()))
}
