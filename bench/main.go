package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// The kernel kills a child when the thread that started it ends, so children are
// started in the main goroutine, on the main thread, which ends last.
func init() { runtime.LockOSThread() }

func main() {
	if len(os.Args) == 4 && os.Args[1] == "serve" {
		exitOn(runContender(os.Args[2], strings.Split(os.Args[3], ",")))
		return
	}
	b := &bench{report: newReport()}
	smoke := flag.Bool("smoke", false, "do everything for a moment, on stub brokers")
	flag.BoolVar(&b.stubs, "stubs", false, "take stub brokers in place of Apache Kafka")
	out := flag.String("o", "", "file to write the report to")
	readme := flag.String("readme", "", "file to quote the report in")
	rows := flag.String("rows", "", "comma-separated numbers of the rows to measure; all if empty")
	flag.StringVar(&b.scaling, "scaling", "", "measure several instances instead, and write the table into this file")
	flag.IntVar(&b.rounds, "rounds", 5, "how often each contender is measured")
	flag.DurationVar(&b.duration, "duration", 1200*time.Millisecond, "of one measurement")
	flag.StringVar(&b.report.note, "note", "", "sentence about this run, for the report")
	flag.Parse()
	b.warm = b.duration / 2
	if *smoke {
		b.smoke, b.stubs, b.rounds, b.duration, b.warm = true, true, 1, 50*time.Millisecond, time.Millisecond
	}
	if *rows != "" {
		b.only = strings.Split(*rows, ",")
	}
	err := b.run(context.Background())
	if err != nil {
		fmt.Println(b.report.table()) // what was measured so far; it is written nowhere
	}
	exitOn(err)
	if b.scaling != "" {
		return
	}
	b.report.rounds, b.report.duration = b.rounds, b.duration
	fmt.Println(b.report.table())
	if *out != "" {
		exitOn(os.WriteFile(*out, []byte(b.report.document()), 0o644))
	}
	if *readme != "" {
		text, err := quoted(b.report.document())
		exitOn(err)
		exitOn(writeMeasured(*readme, text))
	}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	smoke    bool
	stubs    bool // no real Kafka
	only     []string
	rounds   int
	duration time.Duration
	warm     time.Duration
	program  string // the coordsvc binary
	scaling  string // file to write the table of several instances into
	report   *report
	// bulkKeyCost is the brokers' CPU time for a key that shares a request with hundreds, in microseconds; 0 if it was not measured.
	bulkKeyCost float64
	began       time.Time
}

func (b *bench) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%4.0fs  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

func (b *bench) wants(row string) bool { return len(b.only) == 0 || slices.Contains(b.only, row) }

func (b *bench) run(ctx context.Context) error {
	b.began = time.Now()
	dir, err := os.MkdirTemp("", "coordsvc-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b.program = filepath.Join(dir, "coordsvc")
	build := exec.Command("go", "build", "-C", "..", "-trimpath", "-o", b.program, "./cmd/coordsvc")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build coordsvc: %w\n%s", err, out)
	}
	if b.scaling != "" || b.smoke {
		table, err := b.replicas(ctx)
		if err != nil {
			return err
		}
		if b.scaling != "" {
			return writeMeasured(b.scaling, table)
		}
	}
	for _, part := range []struct {
		row string
		run func() error
	}{
		{"1", b.codec},
		{"234", func() error { return b.onBatched(ctx) }},
		{"4", func() error { return b.onPerKey(ctx) }},
		{"45", b.onStub},
		{"6", b.scale},
		{"7", b.memory},
	} {
		wanted := false
		for _, r := range part.row {
			wanted = wanted || b.wants(string(r))
		}
		if !wanted {
			continue
		}
		if err := part.run(); err != nil {
			return err
		}
	}
	b.report.took = time.Since(b.began)
	return nil
}
