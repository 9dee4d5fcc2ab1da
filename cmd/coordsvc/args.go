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
	at := slices.IndexFunc(words, func(word string) bool { return !strings.HasPrefix(word, "-") })
	if at < 0 {
		return words
	}
	command := slices.IndexFunc(app.Children, func(n *kong.Node) bool { return n.Name == words[at] })
	if command < 0 || len(app.Children[command].Positional) == 0 {
		return words
	}
	flags, arguments := split(app.Children[command], words[at+1:])
	if len(arguments) == 0 {
		return words
	}
	return slices.Concat(words[:at+1], flags, []string{"--"}, arguments)
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
	for _, group := range command.AllFlags(false) {
		for _, flag := range group {
			if word == "--"+flag.Name || flag.Short != 0 && word == "-"+string(flag.Short) {
				return !flag.IsBool()
			}
		}
	}
	return false
}
