package server

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/coordsvc/coordsvc/internal/spelling"
)

// params are the names that a query or a body may have: both spellings of each
// field, keyType and key_type. The request messages are flat, so these are all.
type params struct {
	fields map[string]protoreflect.FieldDescriptor
	names  []string // as documented, in order of the fields
}

func paramsOf(r *route) params {
	p := params{fields: map[string]protoreflect.FieldDescriptor{}}
	if r.request == nil {
		return p
	}
	for i := range r.request.Fields().Len() {
		f := r.request.Fields().Get(i)
		if slices.Contains(r.segments, "{"+string(f.Name())+"}") {
			continue // it is in the path
		}
		p.fields[f.JSONName()] = f
		p.fields[string(f.Name())] = f
		p.names = append(p.names, f.JSONName())
	}
	return p
}

// field is the field called name, or a refusal that says which names there are.
func (p params) field(where, name string) (protoreflect.FieldDescriptor, *refusal) {
	if f, ok := p.fields[name]; ok {
		return f, nil
	}
	hint := "it can be " + orList(p.names)
	if meant := spelling.Nearest(name, p.names); meant != "" {
		hint = "did you mean " + meant + "?"
	} else if len(p.names) == 0 {
		hint = "there is none to give here"
	}
	shown := strconv.Quote(clip(name))
	return nil, refuseField("UNKNOWN_FIELD", clip(name), "unknown %s %s: %s", where, shown, hint)
}

// parseQuery reads a query into values under the fields' proto names. Unlike
// net/url it refuses what it does not know and takes a semicolon for what it is,
// a character.
func parseQuery(r *route, rawQuery string) (url.Values, *refusal) {
	if r.method == http.MethodPost && rawQuery != "" {
		return nil, refuse(http.StatusBadRequest, codes.InvalidArgument, "INVALID_QUERY",
			"the query of a POST says nothing: all that is asked for stands in the body (%s)", orList(r.params.names))
	}
	values := url.Values{}
	for pair := range strings.SplitSeq(rawQuery, "&") {
		if pair == "" {
			continue
		}
		name, value, problem := parsePair(pair)
		if problem != nil {
			return nil, problem
		}
		f, problem := r.params.field("query parameter", name)
		if problem != nil {
			return nil, problem
		}
		if problem := addValue(values, f, value); problem != nil {
			return nil, problem
		}
	}
	for _, name := range r.required {
		if !values.Has(string(name)) {
			return nil, refuseField("MISSING_FIELD", string(name),
				"the query parameter %s is missing (to look up the empty %s write %s=)", name, name, name)
		}
	}
	return values, nil
}

func parsePair(pair string) (name, value string, problem *refusal) {
	rawName, rawValue, _ := strings.Cut(pair, "=")
	name, err := url.QueryUnescape(rawName)
	if err == nil {
		value, err = url.QueryUnescape(rawValue)
	}
	switch {
	case err != nil:
		return "", "", refuse(http.StatusBadRequest, codes.InvalidArgument, "INVALID_QUERY",
			"the query: %s: a percent sign that is meant as itself is written %%25", err)
	case !utf8.ValidString(name) || !utf8.ValidString(value):
		return "", "", refuse(http.StatusBadRequest, codes.InvalidArgument, "INVALID_QUERY",
			"the query %q is not UTF-8: percent-encode the bytes of UTF-8 text", clip(rawName))
	}
	return name, value, nil
}

// addValue checks value and adds it under the name of f.
func addValue(values url.Values, f protoreflect.FieldDescriptor, value string) *refusal {
	name := string(f.Name())
	if !f.IsList() && values.Has(name) {
		return refuseField("INVALID_ARGUMENT", name, "%s is given more than once: give one", f.JSONName())
	}
	switch {
	case f.Enum() != nil:
		canonical, problem := enumValue(f, value)
		if problem != nil {
			return problem
		}
		value = canonical
	case isDuration(f):
		d, problem := parseDuration(f, value)
		if problem != nil {
			return problem
		}
		if d.GetSeconds() > farAway { // the gateway's parser knows 292 years, protobuf 10,000
			value = strconv.Itoa(farAway) + "s"
		}
	}
	values[name] = append(values[name], value)
	return nil
}

// farAway is a timeout in seconds that is longer than any other and that every
// parser can read.
const farAway = 1_000_000_000

var durationName = (*durationpb.Duration)(nil).ProtoReflect().Descriptor().FullName()

func isDuration(f protoreflect.FieldDescriptor) bool {
	return f.Message() != nil && f.Message().FullName() == durationName
}

func parseDuration(f protoreflect.FieldDescriptor, text string) (*durationpb.Duration, *refusal) {
	d := &durationpb.Duration{}
	if err := protojson.Unmarshal([]byte(strconv.Quote(text)), d); err != nil {
		return nil, refuseField("INVALID_ARGUMENT", string(f.Name()), "%s is %q: write seconds with the suffix s, such as 2.5s", f.JSONName(), clip(text))
	}
	return d, nil
}

// enumValue is the name of an enum value given by its name in any case, or by its number.
func enumValue(f protoreflect.FieldDescriptor, text string) (string, *refusal) {
	v := enumNamed(f, text)
	if n, err := strconv.ParseInt(text, 10, 32); v == nil && err == nil {
		v = f.Enum().Values().ByNumber(protoreflect.EnumNumber(n))
	}
	if v == nil {
		return "", refuseEnum(f, text)
	}
	return string(v.Name()), nil
}

// enumNamed is the enum value of that name, in any case, or nil.
func enumNamed(f protoreflect.FieldDescriptor, name string) protoreflect.EnumValueDescriptor {
	return f.Enum().Values().ByName(protoreflect.Name(upperASCII(name)))
}

func refuseEnum(f protoreflect.FieldDescriptor, text string) *refusal {
	all := f.Enum().Values()
	var names []string
	for i := range all.Len() {
		if v := all.Get(i); v.Number() != 0 { // 0 is "unspecified"
			names = append(names, string(v.Name()))
		}
	}
	return refuseField("INVALID_ARGUMENT", string(f.Name()), "%s is %q: it can be %s", f.JSONName(), clip(text), orList(names))
}

// upperASCII leaves other letters alone: ı is no I.
func upperASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' {
			return r - 'a' + 'A'
		}
		return r
	}, s)
}

func orList(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
