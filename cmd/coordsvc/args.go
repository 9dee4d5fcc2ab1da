package main

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// argumentsLast moves the flags of a command before its arguments: kong takes
// arguments in one row only, and would refuse `lookup a --timeout 1s b`. Where no
// command or no argument is found, the words stay as they are.
func argumentsLast(app *kong.Application, words []string) []string {
	command, at := commandOf(app, words)
	if command == nil || len(command.Positional) == 0 {
		return words
	}
	flags, arguments := split(command, words[at+1:])
	if len(arguments) == 0 {
		return words
	}
	return slices.Concat(words[:at+1], flags, []string{"--"}, arguments)
}

// commandOf is the command that the words name, and where; nil if they name none.
func commandOf(app *kong.Application, words []string) (command *kong.Node, at int) {
	at = slices.IndexFunc(words, func(word string) bool { return !strings.HasPrefix(word, "-") })
	if at < 0 {
		return nil, at
	}
	index := slices.IndexFunc(app.Children, func(n *kong.Node) bool { return n.Name == words[at] })
	if index < 0 {
		return nil, at
	}
	return app.Children[index], at
}

// split tells flags, with their values, from arguments.
func split(command *kong.Node, words []string) ([]string, []string) {
	var flags, arguments []string
	for i := 0; i < len(words); i++ {
		word := words[i]
		switch {
		case word == "--":
			return flags, append(arguments, words[i+1:]...)
		case word == "-" || !strings.HasPrefix(word, "-"):
			arguments = append(arguments, word)
		case takesNext(command, word) && i+1 < len(words):
			flags = append(flags, word, words[i+1])
			i++
		default:
			flags = append(flags, word)
		}
	}
	return flags, arguments
}

// takesNext reports whether the word is a flag whose value is the next word.
// Flags that are not known do not: kong will refuse them.
func takesNext(command *kong.Node, word string) bool {
	flag := flagOf(command, word)
	return flag != nil && !flag.IsBool()
}

// flagOf is the flag that the word names, or nil.
func flagOf(command *kong.Node, word string) *kong.Flag {
	for _, group := range command.AllFlags(false) {
		for _, flag := range group {
			if word == "--"+flag.Name || flag.Short != 0 && word == "-"+string(flag.Short) {
				return flag
			}
		}
	}
	return nil
}

// switchWithWord refuses a flag of true and false that has true or false as a word of its
// own after it. The word is not its value: false would mean the contrary, and lookup would
// take it for a key.
func switchWithWord(app *kong.Application, words []string) error {
	command, at := commandOf(app, words)
	if command == nil {
		return nil
	}
	for i := at + 1; i+1 < len(words) && words[i] != "--"; i++ {
		word, next := words[i], words[i+1]
		if takesNext(command, word) {
			i++
			continue
		}
		if flag := flagOf(command, word); flag == nil || !strings.EqualFold(next, "true") && !strings.EqualFold(next, "false") {
			continue
		}
		unless := ""
		if len(command.Positional) > 0 {
			unless = ", or -- before it if it is an argument"
		}
		return failf(exitUsage, "%q after %s is not its value; write %s=%s%s (see %s --help)",
			next, word, word, strings.ToLower(next), unless, command.FullPath())
	}
	return nil
}
