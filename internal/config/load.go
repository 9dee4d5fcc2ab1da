package config

import (
	"errors"
	"slices"
	"strings"
)

// EnvPrefix begins the name of every environment variable that is a setting.
const EnvPrefix = "COORDSVC_"

// ConfigEnv names the settings file where the flag --config does not.
const ConfigEnv = EnvPrefix + "CONFIG"

// Sources are the places to read settings from.
type Sources struct {
	// File is the path of the settings file given by the flag --config. Where it is
	// empty, the environment variable COORDSVC_CONFIG names the file; where that is
	// empty too, there is none.
	File string
	// Environ is the environment as os.Environ gives it.
	Environ []string
	// Flags are the flags that were given; nil means none.
	Flags *Flags
	// Listens says that the ports of the settings will be opened, so that they
	// must not clash.
	Listens bool
	// Require names settings that must be given, for example kafka.brokers.
	Require []string
	// Ignore names sections in which nothing that is given counts, for example kafka.
	Ignore []string
}

// Loaded are the settings in force, and where each came from.
type Loaded struct {
	Settings

	// Warnings are to be shown to the person who wrote the settings: old names.
	Warnings []string

	table   []*Setting
	origins map[string]Origin
}

// Entry is one setting in force, ready to be shown.
type Entry struct {
	*Setting
	// Value is the value in force as it could be given, or Redacted.
	Value  string
	Origin Origin
}

// Redacted is shown in place of a secret that is set.
const Redacted = "[redacted]"

// Load reads the settings. The error joins every mistake found, each an *Error;
// the settings are complete where it is nil. On error they are still returned,
// as far as they were understood, so that they can be shown beside the mistakes.
func Load(sources Sources) (*Loaded, error) {
	return load(table, sources)
}

// Defaults are the settings of somebody who set nothing.
func Defaults() Settings {
	loaded, err := Load(Sources{})
	if err != nil {
		panic("config: a default is not valid: " + err.Error())
	}
	return loaded.Settings
}

func load(table []*Setting, sources Sources) (*Loaded, error) {
	loaded := &Loaded{table: table, origins: make(map[string]Origin, len(table))}
	var mistakes []error
	given := make(map[string][]located, len(table))
	collect := func(values []located, errs []error) {
		for _, v := range values {
			if section, _, _ := strings.Cut(v.path, "."); !slices.Contains(sources.Ignore, section) {
				given[v.path] = append(given[v.path], v)
			}
		}
		mistakes = append(mistakes, errs...)
	}
	// From the weakest to the strongest; the last one given is in force.
	names := withOldNames(table)
	fileValues, fileMistakes := fromFile(names, sources)
	collect(fileValues, fileMistakes)
	collect(fromEnviron(names, sources.Environ))
	collect(sources.Flags.values(), nil)

	for _, s := range table {
		mistakes = append(mistakes, loaded.adopt(s, given)...)
		mistakes = append(mistakes, loaded.settle(s, given[s.Path])...)
		if slices.Contains(sources.Require, s.Path) && given[s.Path] == nil && !mayHide(fileMistakes, s.Path) {
			mistakes = append(mistakes, &Error{Setting: s.Path, Reason: "must be set: give --" + s.Flag() + " or " + s.Env() +
				" or the file's " + s.Path + ", for example " + s.Example})
		}
	}
	if len(mistakes) == 0 {
		mistakes = loaded.checkRules(sources.Listens)
	}
	return loaded, errors.Join(mistakes...)
}

// mayHide reports whether a mistake in the file is why a setting is not known: the file, or
// the part that it would be in, was not read. That it must be set says nothing then.
func mayHide(mistakes []error, path string) bool {
	return slices.ContainsFunc(mistakes, func(err error) bool {
		var mistake *Error
		return errors.As(err, &mistake) &&
			(mistake.Setting == "" || mistake.Setting == path || strings.HasPrefix(path, mistake.Setting+"."))
	})
}

// located is a value and where it was given.
type located struct {
	path   string
	value  raw
	origin Origin
}

// settle puts the strongest of the given values into force. The weaker ones are
// checked too: a mistake stays a mistake when something else hides it today.
func (l *Loaded) settle(s *Setting, given []located) []error {
	var mistakes []error
	l.origins[s.Path] = Origin{}
	if s.Default != "" {
		if err := s.assign(&l.Settings, raw{text: s.Default}); err != nil {
			mistakes = append(mistakes, &Error{Setting: s.Path, Reason: "default: " + err.Error()})
		}
	}
	for _, v := range given {
		if err := s.assign(&l.Settings, v.value); err != nil {
			mistakes = append(mistakes, &Error{Setting: s.Path, Origin: v.origin, Reason: err.Error()})
			continue
		}
		l.origins[s.Path] = v.origin
	}
	return mistakes
}

// Origin says where the value in force was given. The path must be one of the table.
func (l *Loaded) Origin(path string) Origin {
	origin, ok := l.origins[path]
	if !ok {
		panic("config: there is no setting " + path)
	}
	return origin
}

// Entries are the settings in force, in the order of the table, secrets redacted.
func (l *Loaded) Entries() []Entry {
	entries := make([]Entry, 0, len(l.table))
	for _, s := range l.table {
		value := s.format(&l.Settings)
		if s.Secret && value != "" {
			value = Redacted
		}
		entries = append(entries, Entry{Setting: s, Value: value, Origin: l.origins[s.Path]})
	}
	return entries
}

// find returns the setting of that path, or nil.
func find(table []*Setting, path string) *Setting {
	i := slices.IndexFunc(table, func(s *Setting) bool { return s.Path == path })
	if i < 0 {
		return nil
	}
	return table[i]
}

// isSection reports whether settings have paths that begin with path and a dot.
func isSection(table []*Setting, path string) bool {
	return slices.ContainsFunc(table, func(s *Setting) bool { return strings.HasPrefix(s.Path, path+".") })
}
