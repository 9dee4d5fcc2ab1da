package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// series is one figure, a value a round.
type series []float64

func (s series) median() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	mid := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[mid]
	}
	return (sorted[mid-1] + sorted[mid]) / 2
}

// over is the ratio of two series, round by round.
func (s series) over(t series) series {
	r := make(series, min(len(s), len(t)))
	for i := range r {
		r[i] = s[i] / t[i]
	}
	return r
}

func (s series) plus(t series) series {
	r := make(series, min(len(s), len(t)))
	for i := range r {
		r[i] = s[i] + t[i]
	}
	return r
}

// String is the median and, behind it, the least and the greatest.
func (s series) String() string {
	if len(s) == 0 {
		return "–"
	}
	if least, most := number(slices.Min(s)), number(slices.Max(s)); least != most {
		return fmt.Sprintf("%s (%s–%s)", number(s.median()), least, most)
	}
	return number(s.median())
}

// number has three digits that count, and commas.
func number(x float64) string {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return "–"
	case x == 0:
		return "0"
	case math.Abs(x) < 100:
		digits := 2 - int(math.Floor(math.Log10(math.Abs(x))))
		text := strconv.FormatFloat(x, 'f', digits, 64)
		if strings.Contains(text, ".") {
			text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
		}
		return text
	}
	text := strconv.FormatFloat(math.Round(x), 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
