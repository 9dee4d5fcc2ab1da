package config

import (
	"fmt"
	"slices"
)

// withOldNames is the table with a row for each name that a setting had before.
func withOldNames(table []*Setting) []*Setting {
	rows := slices.Clone(table)
	for _, s := range table {
		if s.Formerly != "" {
			rows = append(rows, s.old())
		}
	}
	return rows
}

// old is the setting under the name that it had before; nil if it had none.
func (s *Setting) old() *Setting {
	if s.Formerly == "" {
		return nil
	}
	old := *s
	old.Path, old.Formerly = s.Formerly, ""
	old.Doc = "Renamed: use " + s.Path + "."
	return &old
}

// adopt puts what was given under the old name of a setting under its name. It
// warns, and refuses where both were given: which one counts would be a guess.
func (l *Loaded) adopt(s *Setting, given map[string][]located) []error {
	old := given[s.Formerly]
	if s.Formerly == "" || old == nil {
		return nil
	}
	last := old[len(old)-1]
	if now := given[s.Path]; now != nil {
		return []error{&Error{Setting: s.Formerly, Origin: last.origin,
			Reason: fmt.Sprintf("is the old name of %s, which is given too (%s): take the old one out", s.Path, now[len(now)-1].origin)}}
	}
	given[s.Path] = old
	l.Warnings = append(l.Warnings, fmt.Sprintf("%s (%s) is called %s now: the old name will go", s.Formerly, last.origin, s.Path))
	return nil
}
