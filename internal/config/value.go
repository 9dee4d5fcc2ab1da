package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// raw is a value as it was given, before its setting says what it should be.
type raw struct {
	// text is the value where it was given as one text.
	text string
	// items are the values where it was given as a YAML list; nil otherwise.
	items []string
}

// Type names the type of the setting: text, boolean, integer, number, size, duration or list.
func (s *Setting) Type() string {
	switch s.field(new(Settings)).(type) {
	case *string:
		return "text"
	case *bool:
		return "boolean"
	case *int:
		return "integer"
	case *float64:
		return "number"
	case *Size:
		return "size"
	case *time.Duration:
		return "duration"
	case *[]string:
		return "list"
	}
	panic("config: setting " + s.Path + " has a field of a type that this package cannot read")
}

// assign reads the value, checks it and stores it in dst. On error dst is as before.
func (s *Setting) assign(dst *Settings, value raw) error {
	parsed, err := parse(s.field(dst), value)
	if err == nil && s.Limit.check != nil {
		err = s.Limit.check(parsed)
	}
	if err != nil {
		if s.Secret {
			// The reason quotes the value.
			return errors.New("the value is not valid; it is a secret and not shown here")
		}
		return err
	}
	switch field := s.field(dst).(type) {
	case *string:
		*field = parsed.(string)
	case *bool:
		*field = parsed.(bool)
	case *int:
		*field = parsed.(int)
	case *float64:
		*field = parsed.(float64)
	case *Size:
		*field = parsed.(Size)
	case *time.Duration:
		*field = parsed.(time.Duration)
	case *[]string:
		*field = parsed.([]string)
	}
	return nil
}

// parse reads the value as the type that field points to.
func parse(field any, value raw) (any, error) {
	if _, isList := field.(*[]string); isList {
		return parseList(value)
	}
	if value.items != nil {
		return nil, errors.New("a list is given where one value is expected")
	}
	switch field.(type) {
	case *bool:
		return parseBool(value.text)
	case *int:
		return parseInt(value.text)
	case *float64:
		return parseNumber(value.text)
	case *Size:
		return parseSize(value.text)
	case *time.Duration:
		return parseDuration(value.text)
	default:
		return value.text, nil
	}
}

func parseBool(text string) (bool, error) {
	b, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("%q is neither true nor false", text)
	}
	return b, nil
}

func parseInt(text string) (int, error) {
	n, err := strconv.Atoi(text)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%s is out of range", text)
	case err != nil:
		return 0, fmt.Errorf("%q is not a whole number", text)
	}
	return n, nil
}

func parseNumber(text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return 0, fmt.Errorf("%q is not a number, such as 0.1", text)
	}
	return x, nil
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil {
		return d, nil
	}
	if _, noUnit := strconv.ParseFloat(text, 64); noUnit == nil {
		return 0, fmt.Errorf("%q has no unit; write %ss for seconds, or use ms, m or h", text, text)
	}
	return 0, fmt.Errorf("%q is not a duration; write for example 500ms, 5s, 3m or 1h30m", text)
}

// parseList splits at commas what was given as one text. The entries of a YAML
// list are taken as they are.
func parseList(value raw) ([]string, error) {
	items := value.items
	if items == nil {
		items = strings.Split(value.text, ",")
	}
	list := make([]string, 0, len(items))
	for i, item := range items {
		item = strings.TrimSpace(item)
		if item == "" {
			return nil, fmt.Errorf("entry %d of the list is empty", i+1)
		}
		list = append(list, item)
	}
	if len(list) == 0 {
		return nil, errors.New("the list is empty")
	}
	return list, nil
}

// format writes the value in force as it could be given.
func (s *Setting) format(from *Settings) string {
	switch field := s.field(from).(type) {
	case *string:
		return *field
	case *bool:
		return strconv.FormatBool(*field)
	case *int:
		return strconv.Itoa(*field)
	case *float64:
		return strconv.FormatFloat(*field, 'g', -1, 64)
	case *Size:
		return field.String()
	case *time.Duration:
		return formatDuration(*field)
	case *[]string:
		return strings.Join(*field, ",")
	}
	return ""
}

// formatDuration drops the zero parts that Duration.String writes: 3m, not 3m0s.
func formatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
