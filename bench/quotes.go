package main

import (
	"fmt"
	"strings"
)

// quotes are the figures that README.md takes from docs/performance.md: a row by its
// section's beginning, what it is and what it is compared with, and a sentence with
// coordsvc's figure, the other's, and their ratio.
var quotes = []struct{ section, what, name, sentence string }{
	{"3. 64 callers", string(keysPerSecond), kadmService,
		"64 callers who ask for one key each get %[1]s answers a second, where the same service written over the client kadm gives them %[2]s: **%[3]s times** as many."},
	{"3. 64 callers", string(requestsPer), kadmService,
		"For that Kafka is sent %[1]s requests a key, where that service sends %[2]s: **%[3]s times** as many."},
	{"4. Bulk, one key a request", "one caller, 10,000 keys: p50, ms", kadmService,
		"From Kafka 2.4, which takes one key a request, 10,000 keys come in %[1]s ms, through that service in %[2]s ms: **%[3]s times** as long."},
}

// quoted is the part of README.md that tells how fast it is, out of docs/performance.md.
func quoted(document string) (string, error) {
	var b strings.Builder
	for _, q := range quotes {
		line, err := lineOf(document, q.section, q.what, q.name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "- "+q.sentence+"\n", median(line[1]), median(line[3]), median(line[4]))
	}
	return b.String(), nil
}

// lineOf is the cells of a row of the tables that report.table writes.
func lineOf(document, section, what, name string) ([]string, error) {
	_, rest, ok := strings.Cut(document, "\n### "+section)
	if ok {
		rest, _, _ = strings.Cut(rest, "\n### ")
		for line := range strings.Lines(rest) {
			cells := strings.Split(strings.Trim(line, "| \n"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			if len(cells) >= len(columns)-1 && cells[0] == what && cells[2] == name {
				return cells, nil
			}
		}
	}
	return nil, fmt.Errorf("no row %q against %q in a section %q", what, name, section)
}

// median is a series as it is written, without its least and greatest.
func median(series string) string {
	m, _, _ := strings.Cut(series, " ")
	return m
}
