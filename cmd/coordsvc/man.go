package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/coordsvc/coordsvc/internal/config"
)

type manCmd struct{}

// Help is shown by kong under the usage.
func (manCmd) Help() string {
	return `The packages install it. It has every command, and every setting with all that there is to say of it.

Examples:

    coordsvc man > coordsvc.1 && man ./coordsvc.1`
}

// Run prints the page.
func (*manCmd) Run(inv *invocation) error {
	_, err := io.WriteString(inv.out, manPage(inv.app))
	return err
}

// manPage is coordsvc(1) in the macros of man(7). It has no date, so that one commit
// makes one page.
func manPage(app *kong.Application) string {
	var m man
	m.macro("TH", "COORDSVC", "1", "", "coordsvc "+thisBuild().version, "")
	m.line(".ad l") // the names of variables are too long to stretch lines around
	m.macro("SH", "NAME")
	m.text(`coordsvc - which Kafka broker coordinates a group, a transactional id or a share partition`)
	m.macro("SH", "SYNOPSIS")
	for _, command := range app.Children {
		m.macro("SY", "coordsvc "+command.Name)
		m.text(synopsis(command))
		m.line(".YS")
	}
	m.macro("SH", "DESCRIPTION")
	m.help(description + "\n\n" + generalHelp)
	m.macro("SH", "COMMANDS")
	for _, command := range app.Children {
		m.command(command)
	}
	m.macro("SH", "SETTINGS")
	m.text(`A setting is a flag, an environment variable or a key of the YAML file. A flag beats the environment, the environment beats the file, the file beats the default.`)
	for _, section := range config.Sections {
		m.macro("SS", section.Title+" ("+section.Name+")")
		for s := range config.All() {
			if s.Section() == section.Name {
				m.setting(s)
			}
		}
	}
	m.macro("SH", "ENVIRONMENT")
	m.item(config.ConfigEnv)
	m.text("The settings file, where --config names none.")
	m.item("GOMEMLIMIT")
	m.text("Where the heap ends. In a container it is nine tenths of the container's memory unless set.")
	m.macro("SH", "FILES")
	m.item("/etc/coordsvc/coordsvc.yaml")
	m.text("Settings of the service that the packages install.")
	return m.String()
}

// man writes the macros of man(7).
type man struct{ strings.Builder }

func (m *man) line(line string) { m.WriteString(line + "\n") }

// macro writes a request with its arguments.
func (m *man) macro(name string, args ...string) {
	m.WriteString("." + name)
	for _, arg := range args {
		m.WriteString(` "` + strings.ReplaceAll(roff(arg), `"`, `\(dq`) + `"`)
	}
	m.WriteString("\n")
}

// text writes a paragraph's words.
func (m *man) text(text string) {
	if text = roff(text); text != "" {
		m.line(text)
	}
}

// item begins a paragraph under a name.
func (m *man) item(name string) {
	m.line(".TP")
	m.macro("B", name)
}

// help writes paragraphs as kong has them: those with four spaces before are examples.
func (m *man) help(text string) {
	for i, paragraph := range strings.Split(text, "\n\n") {
		if i > 0 {
			m.line(".PP")
		}
		if !strings.HasPrefix(paragraph, "    ") {
			m.text(paragraph)
			continue
		}
		m.line(".EX")
		for line := range strings.SplitSeq(paragraph, "\n") {
			m.text(line)
		}
		m.line(".EE")
	}
}

func (m *man) command(command *kong.Node) {
	m.macro("SS", "coordsvc "+command.Name)
	m.help(command.Help)
	if command.Detail != "" {
		m.line(".PP")
		m.help(command.Detail)
	}
	var sections []string
	for _, flag := range command.Flags {
		if flag.Hidden {
			continue
		}
		if flag.Group != nil { // a setting, which has its place below
			if title := strings.TrimSuffix(flag.Group.Title, ":"); len(sections) == 0 || sections[len(sections)-1] != title {
				sections = append(sections, title)
			}
			continue
		}
		m.item(flagUsage(flag))
		m.text(flag.Help)
	}
	if sections != nil {
		m.line(".PP")
		m.text("Flags for settings: " + strings.Join(sections, "; ") + ".")
	}
}

func (m *man) setting(s *config.Setting) {
	m.item("--" + s.Flag())
	m.text(s.Doc)
	m.line(".br")
	about := s.Env() + ", " + s.Path + ". Type: " + s.Type()
	if limit := s.Limit.String(); limit != "" {
		about += " (" + limit + ")"
	}
	switch {
	case s.Required:
		about += ". It must be given."
	case s.Default == "":
		about += ". No default."
	default:
		about += ". Default: " + s.Default
	}
	m.text(about)
}

func synopsis(command *kong.Node) string {
	words := []string{"[flags]"}
	for _, argument := range command.Positional {
		words = append(words, argument.Summary())
	}
	return strings.Join(words, " ")
}

func flagUsage(flag *kong.Flag) string {
	usage := "--" + flag.Name
	if flag.Short != 0 {
		usage = fmt.Sprintf("-%c, %s", flag.Short, usage)
	}
	if !flag.IsBool() {
		usage += "=" + flag.PlaceHolder
	}
	return usage
}

// roff keeps roff from taking anything in the text for its own.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "~", `\(ti`, "^", `\(ha`).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}
