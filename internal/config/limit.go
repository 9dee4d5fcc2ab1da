package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/coordsvc/coordsvc/internal/spelling"
)

// Limit is what a value must keep to, in a form that documentation and schemas
// can be made from.
type Limit struct {
	// Min and Max are inclusive and written like the value. Empty: not limited.
	Min, Max string
	// OneOf are the only values allowed, where it is not nil.
	OneOf []string
	// Syntax describes a value that has a form of its own, for example host:port.
	Syntax string

	check func(value any) error
}

// String describes the limit for people; "" where there is none.
func (l Limit) String() string {
	switch {
	case l.OneOf != nil:
		return strings.Join(l.OneOf, ", ")
	case l.Min != "" || l.Max != "":
		return l.Min + " to " + l.Max
	default:
		return l.Syntax
	}
}

func from(low, high int) Limit {
	return Limit{
		Min: strconv.Itoa(low), Max: strconv.Itoa(high),
		check: func(value any) error {
			if n := value.(int); n < low || n > high {
				return fmt.Errorf("%d is out of range; give %d to %d", n, low, high)
			}
			return nil
		},
	}
}

// share allows a part of the whole.
func share() Limit {
	return Limit{
		Min: "0", Max: "1",
		check: func(value any) error {
			if x := value.(float64); x < 0 || x > 1 {
				return fmt.Errorf("%v is out of range; give 0 to 1, where 0.1 is a tenth", x)
			}
			return nil
		},
	}
}

// collectorURL allows a URL that can be shown, without credentials, and none at all.
func collectorURL() Limit {
	return Limit{
		Syntax: "http(s)://host:port",
		check: func(value any) error {
			u, err := url.Parse(value.(string))
			switch {
			case value == "":
				return nil
			case holdsUser(value.(string)):
				return errors.New("the URL holds a user or a password, which would be shown; give credentials in OTEL_EXPORTER_OTLP_HEADERS")
			case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "":
				return errors.New("the value is no URL that begins with http:// or https:// and a host, for example http://otel-collector.example:4318")
			case u.RawQuery != "" || u.Fragment != "":
				return errors.New("the URL has a query or a fragment; give only scheme, host, port and, if need be, a path")
			}
			return nil
		},
	}
}

func between(low, high time.Duration) Limit {
	return Limit{
		Min: formatDuration(low), Max: formatDuration(high),
		check: func(value any) error {
			if d := value.(time.Duration); d < low || d > high {
				return fmt.Errorf("%s is out of range; give %s to %s", formatDuration(d), formatDuration(low), formatDuration(high))
			}
			return nil
		},
	}
}

func oneOf(values ...string) Limit {
	return Limit{
		OneOf: values,
		check: func(value any) error {
			if text := value.(string); !slices.Contains(values, text) {
				return fmt.Errorf("%q is not one of %s%s", text, strings.Join(values, ", "), didYouMean(text, values))
			}
			return nil
		},
	}
}

// printable allows what can stand in a log line of a broker.
func printable(maxBytes int) Limit {
	return Limit{
		Syntax: fmt.Sprintf("1 to %d bytes, printable", maxBytes),
		check: func(value any) error {
			text := value.(string)
			switch {
			case text == "":
				return errors.New("the value is empty")
			case len(text) > maxBytes:
				return fmt.Errorf("the value has %d bytes; at most %d are allowed", len(text), maxBytes)
			case strings.ContainsFunc(text, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }):
				return fmt.Errorf("%q holds a character that cannot be printed", text)
			}
			return nil
		},
	}
}

// oneLine allows what fits into a message of SASL.
func oneLine() Limit {
	return Limit{check: func(value any) error {
		if strings.ContainsFunc(value.(string), unicode.IsControl) {
			return errors.New("the value holds a control character")
		}
		return nil
	}}
}

// holdsUser reports whether a text that should be a URL has a user or a password in it,
// as far as can be told: no message may quote it then, nor may it be shown.
func holdsUser(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return strings.Contains(text, "@")
	}
	return u.User != nil
}

// withoutUser allows every URL that can be shown: the rest of it is judged elsewhere.
func withoutUser() Limit {
	return Limit{
		Syntax: "URL",
		check: func(value any) error {
			if holdsUser(value.(string)) {
				return errors.New("the URL holds a user or a password, which would be shown")
			}
			return nil
		},
	}
}

// httpURL allows what can be fetched. A password in it would be printed with it.
func httpURL() Limit {
	return Limit{
		Syntax: "URL",
		check: func(value any) error {
			text := value.(string)
			u, err := url.Parse(text)
			switch {
			case holdsUser(text):
				return errors.New("the URL holds a user or a password; give them by settings of their own")
			case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Fragment != "":
				return fmt.Errorf("%q is no URL that begins with https:// or http:// and has a host", text)
			}
			return nil
		},
	}
}

// saslExtensions allows what RFC 7628, section 3.1, does, but for the name auth, which
// is the token's.
func saslExtensions() Limit {
	return Limit{
		Syntax: "name=value, ...",
		check: func(value any) error {
			seen := map[string]bool{}
			for _, item := range value.([]string) {
				name, text, found := strings.Cut(item, "=")
				letters := strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz") == ""
				switch {
				case !found || text == "":
					return fmt.Errorf("%q is not name=value", item)
				case !letters || name == "" || name == "auth":
					return fmt.Errorf("%q cannot be the name of an extension: it has letters only, and auth is taken", name)
				case strings.ContainsFunc(text, func(r rune) bool { return r > '~' || r < ' ' }):
					return fmt.Errorf("the value of the extension %s has a character that is not printable ASCII", name)
				case seen[name]:
					return fmt.Errorf("the extension %s is given twice", name)
				}
				seen[name] = true
			}
			return nil
		},
	}
}

func listenAddress() Limit {
	return Limit{
		Syntax: "host:port",
		check: func(value any) error {
			return checkListenAddress(value.(string))
		},
	}
}

func brokerAddresses() Limit {
	return Limit{
		Syntax: "host:port, ...",
		check: func(value any) error {
			for _, address := range value.([]string) {
				if err := checkBrokerAddress(address); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func checkBrokerAddress(address string) error {
	if scheme, rest, found := strings.Cut(address, "://"); found {
		return fmt.Errorf("%q begins with %s://; a broker is given as host:port, here %s", address, scheme, withPort(rest))
	}
	host, port, err := net.SplitHostPort(address)
	switch {
	case err != nil && wantsPort(err):
		return fmt.Errorf("%q has no port; a broker is given as host:port, here for example %s", address, withPort(address))
	case err != nil && strings.ContainsAny(address, " ;"):
		return fmt.Errorf("%q is not host:port; several brokers are separated by commas", address)
	case err != nil:
		return fmt.Errorf("%q is not host:port, for example kafka-1.example:9092 or [2001:db8::1]:9092", address)
	case host == "":
		return fmt.Errorf("%q has no host; a broker is given as host:port, for example kafka-1.example%s", address, address)
	}
	if err := checkHost(address, host); err != nil {
		return err
	}
	return checkPort(address, port, 1)
}

func checkListenAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	switch {
	case err != nil && isPort(address):
		return fmt.Errorf("%q has no colon; write :%s to listen on every address, or 127.0.0.1:%s for this machine only", address, address, address)
	case err != nil && wantsPort(err):
		return fmt.Errorf("%q has no port; give host:port, for example %s:8080", address, bracketed(strings.TrimSuffix(address, ":")))
	case err != nil:
		return fmt.Errorf("%q is not host:port, for example :8080, 127.0.0.1:8080 or [::1]:8080", address)
	}
	if err := checkHost(address, host); err != nil {
		return err
	}
	return checkPort(address, port, 0)
}

// wantsPort tells an address without a port from one that is written wrongly.
// A bare IPv6 address counts as the former: net finds too many colons in it.
func wantsPort(err error) bool {
	var addr *net.AddrError
	if !errors.As(err, &addr) {
		return false
	}
	return addr.Err == "missing port in address" || net.ParseIP(addr.Addr) != nil
}

// withPort shows the address as it should have been given.
func withPort(address string) string {
	address, _, _ = strings.Cut(address, "/")
	if _, port, err := net.SplitHostPort(address); err == nil && port != "" {
		return address
	}
	return bracketed(strings.TrimSuffix(address, ":")) + ":9092"
}

func bracketed(host string) string {
	if ip := net.ParseIP(host); ip != nil && strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// checkHost refuses what can be neither a name nor an address. Whether a name
// exists is for the resolver to say, when it is dialled.
func checkHost(address, host string) error {
	if strings.ContainsFunc(host, func(r rune) bool {
		return r == unicode.ReplacementChar || unicode.IsSpace(r) || !unicode.IsPrint(r) || strings.ContainsRune(`/\@,;"'()<>[]{}?#`, r)
	}) {
		return fmt.Errorf("%q holds a character that no host name has", address)
	}
	if strings.Contains(host, ":") && net.ParseIP(strings.Split(host, "%")[0]) == nil {
		return fmt.Errorf("%q is not a valid IPv6 address with a port, such as [2001:db8::1]:9092", address)
	}
	return nil
}

func checkPort(address, port string, lowest int) error {
	if port == "" {
		return fmt.Errorf("%q has no port after the colon", address)
	}
	n, err := strconv.ParseUint(port, 10, 32)
	if err != nil || n > 65535 || int(n) < lowest {
		return fmt.Errorf("%q: the port must be a number from %d to 65535", address, lowest)
	}
	return nil
}

func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

// didYouMean ends an error about a name that is none of the candidates.
func didYouMean(given string, candidates []string) string {
	meant := spelling.Nearest(given, candidates)
	if meant == "" {
		return ""
	}
	return "; did you mean " + meant + "?"
}
