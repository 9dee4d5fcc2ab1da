package config

import "fmt"

// Source is a kind of place that a value can come from.
type Source int

// The sources, from the weakest to the strongest.
const (
	SourceDefault Source = iota
	SourceFile
	SourceEnv
	SourceFlag
)

func (s Source) String() string {
	return [...]string{"default", "file", "environment", "flag"}[s]
}

// Origin is where a value was given.
type Origin struct {
	Source Source
	// Name is the flag with its dashes, the environment variable, or the file and
	// the line (coordsvc.yaml:12). It is empty for a default.
	Name string
}

// String reads well after "set by".
func (o Origin) String() string {
	if o.Name == "" {
		return o.Source.String()
	}
	return o.Source.String() + " " + o.Name
}

// Error is one mistake in the settings.
type Error struct {
	// Setting is the path of the setting, or the name that was given where there is
	// no such setting. It is empty where the file as a whole is at fault.
	Setting string
	Origin  Origin
	Reason  string
}

func (e *Error) Error() string {
	switch {
	case e.Setting == "":
		return fmt.Sprintf("%s: %s", e.Origin, e.Reason)
	case e.Origin.Name == "":
		return fmt.Sprintf("%s: %s", e.Setting, e.Reason)
	default:
		return fmt.Sprintf("%s (%s): %s", e.Setting, e.Origin, e.Reason)
	}
}
