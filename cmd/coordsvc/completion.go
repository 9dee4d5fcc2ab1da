package main

import (
	"embed"
	"io"
	"strings"
	"text/template"

	"github.com/alecthomas/kong"

	"github.com/coordsvc/coordsvc/internal/config"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"One of bash, zsh, fish."`
}

// Help is shown by kong under the usage.
func (completionCmd) Help() string {
	return `The packages install it. Elsewhere, these give it to every new shell (make the folder first, where there is none), and the last one to this bash.

Examples:

    coordsvc completion bash > ~/.local/share/bash-completion/completions/coordsvc
    coordsvc completion zsh > "${fpath[1]}/_coordsvc"
    coordsvc completion fish > ~/.config/fish/completions/coordsvc.fish
    eval "$(coordsvc completion bash)"`
}

// Run prints the script.
func (c *completionCmd) Run(inv *invocation) error {
	return printCompletion(inv.out, c.Shell, inv.app)
}

//go:embed completion
var completionFiles embed.FS

var completions = template.Must(template.New("").Funcs(template.FuncMap{
	"quote": quoteForShell,
	"join":  func(words []string) string { return strings.Join(words, " ") },
	// zsh reads brackets and colons in a description as its own.
	"zsh": func(text string) string { return strings.NewReplacer(`[`, `\[`, `]`, `\]`, `:`, `\:`).Replace(text) },
}).ParseFS(completionFiles, "completion/*"))

func printCompletion(w io.Writer, shell string, app *kong.Application) error {
	commands := []completedCommand{}
	for _, node := range app.Children {
		commands = append(commands, completedCommand{node.Name, node.Help, completedFlags(node), completedArguments(node)})
	}
	return completions.ExecuteTemplate(w, shell, commands)
}

// completedCommand is what the scripts know of a command.
type completedCommand struct {
	Name, Help string
	Flags      []completedFlag
	Arguments  []string // that there are to choose from
}

type completedFlag struct {
	Name, Short string // without dashes; Short is often empty
	Help        string
	Takes       string   // name of the value; empty where the flag is complete without
	Values      []string // that there are to choose from
	File        bool     // the value names a file
}

// Words are the spellings of the flag.
func (f completedFlag) Words() []string {
	if f.Short == "" {
		return []string{"--" + f.Name}
	}
	return []string{"--" + f.Name, "-" + f.Short}
}

func completedFlags(command *kong.Node) []completedFlag {
	var flags []completedFlag
	for _, group := range command.AllFlags(true) {
		for _, flag := range group {
			flags = append(flags, completed(flag))
		}
	}
	return flags
}

func completed(flag *kong.Flag) completedFlag {
	f := completedFlag{Name: flag.Name, Help: firstSentence(flag.Help), Values: choices(flag.Value)}
	if flag.Short != 0 {
		f.Short = string(flag.Short)
	}
	if !flag.IsBool() {
		f.Takes = flag.PlaceHolder
	}
	f.File = f.Takes != "" && (flag.Name == "config" || strings.HasSuffix(flag.Name, "-file"))
	return f
}

func completedArguments(command *kong.Node) []string {
	var words []string
	for _, argument := range command.Positional {
		words = append(words, choices(argument)...)
	}
	return words
}

// choices are the values that a flag or an argument can have, nil where there is no list.
func choices(value *kong.Value) []string {
	if value.Enum != "" {
		return value.EnumSlice()
	}
	if listed := value.Tag.Get("choices"); listed != "" {
		return strings.Split(listed, ",")
	}
	for s := range config.All() {
		if s.Flag() == value.Name {
			return s.Limit.OneOf
		}
	}
	return nil
}

func firstSentence(text string) string {
	if i := strings.Index(text, ". "); i >= 0 {
		text = text[:i]
	}
	return strings.TrimSuffix(text, ".")
}

// quoteForShell makes one word of the text, in bash and zsh.
func quoteForShell(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
