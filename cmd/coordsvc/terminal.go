package main

import (
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/term"
)

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// style colours text, or leaves it alone: colours are for people at a terminal
// who have not said no (https://no-color.org).
type style struct{ colours bool }

func styleFor(w io.Writer, environ []string) style {
	return style{isTerminal(w) && !isSet(environ, "NO_COLOR") && !isSet(environ, "TERM=dumb")}
}

// isSet reports whether the variable is there and not empty, or, for NAME=VALUE,
// has that value.
func isSet(environ []string, name string) bool {
	for _, variable := range environ {
		if variable == name || strings.HasPrefix(variable, name+"=") && len(variable) > len(name)+1 {
			return true
		}
	}
	return false
}

func (s style) faint(text string) string { return s.paint("2", text) }
func (s style) red(text string) string   { return s.paint("31", text) }

func (s style) paint(code, text string) string {
	if !s.colours {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// displayText makes text from elsewhere safe to show: what could move the cursor
// or change the direction of writing is shown as its escape.
func displayText(text string) string {
	if !strings.ContainsFunc(text, unsafeRune) {
		return text
	}
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// displayKey shows a key so that it can be told from what stands around it.
func displayKey(key string) string {
	if key == "" || strings.TrimSpace(key) != key || strings.ContainsFunc(key, unsafeRune) {
		return strconv.Quote(key)
	}
	return key
}

func unsafeRune(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }

// thousands writes 1234567 as 1,234,567.
func thousands(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
