package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Flags are the flags of some sections of the table, for one command. The command
// embeds Fields in its kong struct; kong only hands over the texts, so that a flag
// is read, checked and reported like any other source.
type Flags struct {
	settings []*Setting
	fields   reflect.Value
}

// NewFlags makes the flags of the sections named, or of all where none is named.
func NewFlags(sections ...string) *Flags {
	return newFlags(table, sections)
}

func newFlags(table []*Setting, sections []string) *Flags {
	f := &Flags{}
	var fields []reflect.StructField
	for _, s := range withOldNames(table) {
		if len(sections) > 0 && !slices.Contains(sections, s.Section()) {
			continue
		}
		fieldType := reflect.TypeFor[flagText]()
		if s.Type() == "boolean" {
			fieldType = reflect.TypeFor[flagBool]()
		}
		hidden := ""
		if find(table, s.Path) == nil { // an old name
			hidden = ` hidden:""`
		}
		f.settings = append(f.settings, s)
		fields = append(fields, reflect.StructField{
			Name: fmt.Sprintf("Flag%d", len(fields)),
			Type: fieldType,
			Tag: reflect.StructTag(fmt.Sprintf(`name:%q help:%q group:%q placeholder:%q%s`,
				s.Flag(), flagHelp(s), sectionTitle(s.Section())+":", placeholder(s), hidden)),
		})
	}
	f.fields = reflect.New(reflect.StructOf(fields))
	return f
}

// Fields is the struct for kong: put it into a field of type any with the tag embed:"".
func (f *Flags) Fields() any { return f.fields.Interface() }

// values are the flags that were given.
func (f *Flags) values() []located {
	if f == nil {
		return nil
	}
	var values []located
	for i, s := range f.settings {
		var given []string
		switch field := f.fields.Elem().Field(i).Interface().(type) {
		case flagText:
			given = field
		case flagBool:
			given = field.flagText
		}
		if len(given) == 0 {
			continue
		}
		// A list may be given in pieces; of anything else the last one counts.
		text := given[len(given)-1]
		if s.Type() == "list" {
			text = strings.Join(given, ",")
		}
		values = append(values, located{s.Path, raw{text: text}, Origin{SourceFlag, "--" + s.Flag()}})
	}
	return values
}

// flagText holds what was given for a flag, each time that it was.
type flagText []string

// Decode takes the value after the flag; kong calls it.
func (t *flagText) Decode(ctx *kong.DecodeContext) error {
	var text string
	if err := ctx.Scan.PopValueInto("value", &text); err != nil {
		return err
	}
	*t = append(*t, text)
	return nil
}

// flagBool is a flag that stands for true where no value follows (--x or --x=false).
type flagBool struct{ flagText }

// IsBool tells kong that the value may be left out.
func (*flagBool) IsBool() bool { return true }

// Decode takes the value behind "=", or true where there is none.
func (b *flagBool) Decode(ctx *kong.DecodeContext) error {
	if ctx.Scan.Peek().Type == kong.FlagValueToken {
		return b.flagText.Decode(ctx)
	}
	b.flagText = append(b.flagText, "true")
	return nil
}

func flagHelp(s *Setting) string {
	help := s.Summary()
	if s.Limit.OneOf != nil {
		help += " One of " + s.Limit.String() + "."
	}
	switch s.Default {
	case "":
	case "true":
		help += " Default: true; =false turns it off."
	default:
		help += " Default: " + s.Default + "."
	}
	return help
}

func placeholder(s *Setting) string {
	name := strings.ToUpper(s.Path[strings.LastIndexByte(s.Path, '.')+1:])
	switch {
	case s.Limit.Syntax == "host:port" || s.Type() == "list" && s.Limit.Syntax != "":
		return strings.ToUpper(strings.ReplaceAll(s.Limit.Syntax, " ", ""))
	case s.Type() == "list":
		return name + ",..."
	case s.Type() == "duration":
		return "TIME"
	case s.Type() == "size":
		return "SIZE"
	case s.Type() == "integer" || s.Type() == "number":
		return "N"
	default:
		return name
	}
}

func sectionTitle(name string) string {
	for _, s := range Sections {
		if s.Name == name {
			return s.Title
		}
	}
	return name
}
