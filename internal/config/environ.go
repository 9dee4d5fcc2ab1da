package config

import (
	"regexp"
	"slices"
	"strings"

	"github.com/coordsvc/coordsvc/internal/spelling"
)

// serviceLink matches the variables that Kubernetes and Docker links set in every
// container for a service whose name begins with coordsvc: COORDSVC_SERVICE_HOST=…,
// COORDSVC_PORT=tcp://…, COORDSVC_PORT_9090_TCP_ADDR=… They are no settings, and no
// setting may be named so. (COORDSVC_HTTP_PORT=80 is a mistake for http.address.)
var serviceLink = regexp.MustCompile(`^` + EnvPrefix +
	`([^=]+_)?(SERVICE_HOST=|SERVICE_PORT(_[^=]+)?=|PORT=[a-z]+://|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?=)`)

// fromEnviron reads the settings in the environment. A variable that has the
// prefix but belongs to no setting is a mistake, like an unknown key in the file.
func fromEnviron(table []*Setting, environ []string) ([]located, []error) {
	var values []located
	var mistakes []error
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, EnvPrefix) || name == ConfigEnv || value == "" || serviceLink.MatchString(variable) {
			continue
		}
		i := slices.IndexFunc(table, func(s *Setting) bool { return s.Env() == name })
		if i < 0 {
			mistakes = append(mistakes, &Error{
				Setting: name,
				Origin:  Origin{Source: SourceEnv},
				Reason:  "there is no setting with this environment variable" + suggestEnv(table, name),
			})
			continue
		}
		values = append(values, located{table[i].Path, raw{text: value}, Origin{SourceEnv, name}})
	}
	return values, mistakes
}

// suggestEnv compares what stands after the prefix, which all names share.
func suggestEnv(table []*Setting, name string) string {
	names := []string{strings.TrimPrefix(ConfigEnv, EnvPrefix)}
	for _, s := range table {
		names = append(names, strings.TrimPrefix(s.Env(), EnvPrefix))
	}
	meant := spelling.Nearest(strings.TrimPrefix(name, EnvPrefix), names)
	if meant == "" {
		return ""
	}
	return "; did you mean " + EnvPrefix + meant + "?"
}

// lookupEnv returns the value of a variable; "" where it is not there. The last
// one counts where it is there twice, as in os.Getenv of a started process.
func lookupEnv(environ []string, name string) string {
	value := ""
	for _, variable := range environ {
		if rest, ok := strings.CutPrefix(variable, name+"="); ok {
			value = rest
		}
	}
	return value
}
