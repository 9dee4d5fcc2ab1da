package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// target is what a ratio, or else the figure itself, should keep to.
type target struct {
	limit    float64
	most     bool // else least
	absolute bool // the figure, not the ratio
}

func atLeast(x float64) *target { return &target{limit: x} }
func atMost(x float64) *target  { return &target{limit: x, most: true} }

func onlyFor(condition bool, t *target) *target {
	if condition {
		return t
	}
	return nil
}

func (t *target) met(x float64) bool {
	if t.most {
		return x <= t.limit
	}
	return x >= t.limit
}

func (t *target) String() string {
	if t == nil {
		return ""
	}
	if t.most {
		return "≤ " + number(t.limit)
	}
	return "≥ " + number(t.limit)
}

// row is a line of the table: a figure of coordsvc and of what it is compared with.
type row struct {
	what   string
	name   string // of what it is compared with
	ours   series
	theirs series
	target *target
	// limits says what limits the figure, and change what would change that, for the
	// case that the target is missed; profile is where coordsvc's CPU time went then.
	limits, change, profile string
	// oursMore and theirsMore are added to the figures.
	oursMore, theirsMore string
}

func compared(what, name string, ours, theirs series) row {
	return row{what: what, name: name, ours: ours, theirs: theirs}
}

// aims has the row judged by a target, which may be nil.
func (r row) aims(t *target, limits, change string) row {
	r.target, r.limits, r.change = t, limits, change
	return r
}

// judged is the number that a target is for.
func (r *row) judged() float64 {
	if r.target != nil && r.target.absolute {
		return r.ours.median()
	}
	return r.ours.over(r.theirs).median()
}

func (r *row) missed() bool { return r.target != nil && !r.target.met(r.judged()) }

func (r *row) verdict() string {
	switch {
	case r.target == nil:
		return ""
	case r.missed():
		return r.target.String() + " **missed**"
	default:
		return r.target.String() + " met"
	}
}

// section is rows under one title.
type section struct {
	number, title string
	rows          []*row
}

// curve is a table of one thing that grows.
type curve struct {
	title string
	rows  [][]string
}

func (c *curve) add(label string, columns ...series) {
	line := []string{label}
	for _, s := range columns {
		line = append(line, s.String())
	}
	c.rows = append(c.rows, line)
}

type report struct {
	sections []*section
	curves   []*curve
	note     string
	took     time.Duration
	date     time.Time
	rounds   int
	duration time.Duration // of a measurement
	commit   string        // that is measured: the tree may change meanwhile
}

func newReport() *report { return &report{date: time.Now(), commit: commit()} }

// section begins one, and returns what adds a row to it. A row without figures (the
// CPU of brokers that are stubs) is left out.
func (r *report) section(number, title string) (add func(row)) {
	s := &section{number: number, title: title}
	r.sections = append(r.sections, s)
	return func(line row) {
		if len(line.ours) > 0 {
			s.rows = append(s.rows, &line)
		}
	}
}

func (r *report) curve(title string) *curve {
	c := &curve{title: title}
	r.curves = append(r.curves, c)
	return c
}

var columns = []string{"", "coordsvc", "compared with", "theirs", "ratio", "target"}

// table is all that was measured.
func (r *report) table() string {
	var b strings.Builder
	slices.SortStableFunc(r.sections, func(x, y *section) int { return strings.Compare(x.number, y.number) })
	scale := r.scale() // section 6
	for _, s := range r.sections {
		if s.number > "6" {
			b.WriteString(scale)
			scale = ""
		}
		fmt.Fprintf(&b, "### %s. %s\n\n", s.number, s.title)
		lines := [][]string{columns}
		for _, x := range s.rows {
			line := []string{x.what, x.ours.String() + x.oursMore, x.name, "", "", x.verdict()}
			if len(x.theirs) > 0 {
				line[3], line[4] = x.theirs.String()+x.theirsMore, x.ours.over(x.theirs).String()
			}
			lines = append(lines, line)
		}
		writeTable(&b, lines)
	}
	b.WriteString(scale)
	return b.String()
}

// scale is the curves.
func (r *report) scale() string {
	if len(r.curves) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "### 6. Scale (coordsvc alone, over gRPC, on stub brokers)\n\n")
	for _, c := range r.curves {
		fmt.Fprintf(&b, "%s:\n\n", c.title)
		writeTable(&b, append([][]string{{"", string(keysPerSecond), string(p50), string(p99), string(serverCPU), string(peakMemory)}}, c.rows...))
	}
	return b.String()
}

// writeTable is Markdown that reads well as it is: columns are padded.
func writeTable(b *strings.Builder, lines [][]string) {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	write := func(line []string, fill string) {
		b.WriteString("|")
		for i, cell := range line {
			fmt.Fprintf(b, " %s%s |", cell, strings.Repeat(fill, widths[i]-len([]rune(cell))))
		}
		b.WriteString("\n")
	}
	write(lines[0], " ")
	write(make([]string, len(lines[0])), "-")
	for _, line := range lines[1:] {
		write(line, " ")
	}
	b.WriteString("\n")
}

// document is docs/performance.md.
func (r *report) document() string {
	var b strings.Builder
	table := r.table()
	fmt.Fprintf(&b, `# Performance

This file is written by `+"`make bench`"+`, which measures coordsvc beside what could be used in its place, in one run; no figure in it
is typed. It took %v on %s.

%s
How to read it: a figure is the median of %d rounds of %v (at most three in sections 6 and 7, of half that time in 6), in brackets the
least and the greatest. What is compared takes turns, round after round; a ratio is coordsvc's figure divided by the other's, round
by round, and then the median. Every answer was compared with what the brokers said of that key when asked one by one. Servers are processes of their own, and their CPU is theirs alone; the
callers, the stub brokers and, where Kafka is real, its brokers share the same cores with them. coordsvc ran with its default
settings but for `+"`log.level: warn`"+`, since nothing that it is compared with logs a line a call (sections 3 and 5 have the cost of that line);
`+"`admin.pprof`"+`, which costs nothing until it is asked; and, in section 6, a higher `+"`limits.max-calls-in-flight`"+`. The requests
to Kafka are counted by each service itself, coordsvc's by its metrics.

- **no-op gRPC service**: the same API, answering the same words to every key: what gRPC itself costs.
- **kadm service**, **kgo service**: the same API as a developer would write it in an afternoon, over
  [kadm](https://pkg.go.dev/github.com/twmb/franz-go/pkg/kadm) and over plain kgo of franz-go.
- **direct kgo**, **direct kadm**: no service; each caller has a client of its own.
- **no-op gRPC, then direct kgo**: each caller makes both calls itself, one after the other: the parts of a lookup without the service that joins them.
- **raw connection**: bytes prepared and read by hand on one connection, 500 keys a request or one, pipelined: the limit.
- **stub brokers**: brokers that cost next to nothing, for what Java must not limit.

`, r.took.Round(time.Second), r.date.Format("2 January 2006"), r.machine()+fmt.Sprintf("- Beside it: Apache Kafka %s and %s (%s); %s\n",
		batchedRelease, perKeyRelease, java(), strings.Join(modules(), ", ")), r.rounds, r.duration)
	b.WriteString(table)
	b.WriteString("## Targets that were missed\n\n")
	none := true
	for _, s := range r.sections {
		for _, x := range s.rows {
			if !x.missed() {
				continue
			}
			none = false
			fmt.Fprintf(&b, "- %s, %s", s.title, x.what)
			if x.name != "" {
				fmt.Fprintf(&b, ", against %s", x.name)
			}
			fmt.Fprintf(&b, ": %s, target %s. What limits it: %s. What would change it: %s.\n", number(x.judged()), x.target, x.limits, x.change)
			if x.profile != "" {
				fmt.Fprintf(&b, "  Where the CPU time of coordsvc goes under this load: %s.\n", x.profile)
			}
		}
	}
	if none {
		b.WriteString("None.\n")
	}
	return b.String()
}

// machine says what it was measured on.
func (r *report) machine() string {
	var b strings.Builder
	fmt.Fprintf(&b, "- Hardware: %s, %d cores, %s of memory\n", cpuModel(), runtime.NumCPU(), totalMemory())
	fmt.Fprintf(&b, "- System: %s, %s\n", kernel(), runtime.Version())
	fmt.Fprintf(&b, "- coordsvc: commit %s\n", r.commit)
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		fmt.Fprintf(&b, "- Load of the machine at the end (its own among it): %s\n", strings.Join(strings.Fields(string(load))[:3], ", "))
	}
	if r.note != "" {
		fmt.Fprintf(&b, "- Note: %s\n", r.note)
	}
	return b.String()
}

func cpuModel() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown CPU"
	}
	for line := range strings.Lines(string(info)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimSpace(strings.TrimLeft(name, "\t :"))
		}
	}
	return runtime.GOARCH
}

func totalMemory() string {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return "unknown size"
	}
	return fmt.Sprintf("%.0f GiB", float64(info.Totalram)*float64(info.Unit)/(1<<30))
}

func kernel() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return runtime.GOOS
	}
	return unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:]) + " " + runtime.GOARCH
}

// commit is what was measured; "modified" where the tree was not as committed.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty= (modified)", "--exclude=*", "--abbrev=12").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func java() string {
	out, err := exec.Command("java", "-version").CombinedOutput()
	if err != nil {
		return "no Java"
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return strings.ReplaceAll(first, `"`, "")
}

// modules are the versions of what coordsvc is compared with.
func modules() []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	var list []string
	for _, m := range info.Deps {
		switch m.Path {
		case "github.com/twmb/franz-go", "github.com/twmb/franz-go/pkg/kadm", "github.com/twmb/franz-go/pkg/kmsg",
			"github.com/IBM/sarama", "github.com/segmentio/kafka-go", "google.golang.org/grpc":
			list = append(list, strings.TrimPrefix(m.Path, "github.com/")+" "+m.Version)
		}
	}
	return list
}
