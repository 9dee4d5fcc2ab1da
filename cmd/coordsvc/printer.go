package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	coordsvcv1 "github.com/coordsvc/coordsvc/api/gen/coordsvc/v1"
	"github.com/coordsvc/coordsvc/internal/server"
)

// printer shows the results of a lookup as they come. Its writer is a
// bufio.Writer, which keeps the first error until it is flushed.
type printer interface {
	results(results []*coordsvcv1.CoordinatorResult)
	end(failed int)
}

// jsonPrinter writes what REST answers to a FindCoordinators of all keys, byte for
// byte, without holding them all.
type jsonPrinter struct {
	w       io.Writer
	started bool
}

func (p *jsonPrinter) results(results []*coordsvcv1.CoordinatorResult) {
	for _, result := range results {
		text, err := server.MarshalJSON(result)
		if err != nil {
			panic("coordsvc: a result is not UTF-8: " + err.Error()) // keys are checked, brokers' texts never passed on
		}
		separator := ","
		if !p.started {
			separator = `{"results":[`
			p.started = true
		}
		fmt.Fprintf(p.w, "%s%s", separator, text)
	}
}

func (p *jsonPrinter) end(failed int) {
	fmt.Fprintf(p.w, `],"failed":%d}`+"\n", failed)
}

// tablePrinter writes a line a key, and at the end how many keys each broker has.
type tablePrinter struct {
	w     io.Writer
	style style

	keyWidth int // of the widest key so far; 0 before the header
	perNode  map[broker]int
}

type broker struct {
	id      int32
	address string
}

func (b broker) String() string { return fmt.Sprintf("%s (%d)", displayText(b.address), b.id) }

// maxKeyWidth keeps one long key from pushing all others off the screen.
const maxKeyWidth = 60

func (p *tablePrinter) results(results []*coordsvcv1.CoordinatorResult) {
	first := p.keyWidth == 0
	p.keyWidth = max(p.keyWidth, len("KEY"))
	for _, result := range results {
		p.keyWidth = max(p.keyWidth, min(utf8.RuneCountInString(displayKey(result.GetKey())), maxKeyWidth))
	}
	if first {
		fmt.Fprintln(p.w, p.style.faint(pad("KEY", p.keyWidth)+"  COORDINATOR"))
		p.perNode = make(map[broker]int)
	}
	for _, result := range results {
		fmt.Fprintf(p.w, "%s  %s\n", pad(displayKey(result.GetKey()), p.keyWidth), p.outcome(result))
	}
}

func (p *tablePrinter) outcome(result *coordsvcv1.CoordinatorResult) string {
	if failure := result.GetError(); failure != nil {
		return p.style.red(displayText(failure.GetReason())) + ": " + displayText(failure.GetMessage())
	}
	coordinator := result.GetCoordinator()
	b := broker{coordinator.GetNodeId(), net.JoinHostPort(coordinator.GetHost(), strconv.Itoa(int(coordinator.GetPort())))}
	p.perNode[b]++
	return b.String()
}

func (p *tablePrinter) end(failed int) {
	type row struct{ count, name string }
	rows := []row{{"KEYS", "BROKER"}}
	for _, b := range slices.SortedFunc(maps.Keys(p.perNode), func(a, b broker) int {
		return cmp.Or(cmp.Compare(a.id, b.id), strings.Compare(a.address, b.address))
	}) {
		rows = append(rows, row{thousands(p.perNode[b]), b.String()})
	}
	if failed > 0 {
		rows = append(rows, row{thousands(failed), p.style.red("failed")})
	}
	width := 0
	for _, r := range rows {
		width = max(width, len(r.count))
	}
	fmt.Fprintln(p.w)
	for i, r := range rows {
		line := fmt.Sprintf("%*s  %s", width, r.count, r.name)
		if i == 0 {
			line = p.style.faint(line)
		}
		fmt.Fprintln(p.w, line)
	}
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}
