package config

import (
	"fmt"
	"net"
)

// checkRules checks what no setting can check alone. It runs when each of them is
// right by itself.
func (l *Loaded) checkRules(listens bool) []error {
	var mistakes []error
	broken := func(path, format string, args ...any) {
		mistakes = append(mistakes, &Error{Setting: path, Origin: l.origins[path], Reason: fmt.Sprintf(format, args...)})
	}
	if l.Lookup.MaxTimeout < l.Lookup.DefaultTimeout {
		broken("lookup.max-timeout", "%s is less than lookup.default-timeout, which is %s (%s)",
			formatDuration(l.Lookup.MaxTimeout), formatDuration(l.Lookup.DefaultTimeout), l.origins["lookup.default-timeout"])
	}
	if l.Limits.MaxWaitingKeys < l.Lookup.MaxKeys {
		broken("limits.max-waiting-keys", "%d is less than lookup.max-keys, which is %d (%s): the largest call could never be served",
			l.Limits.MaxWaitingKeys, l.Lookup.MaxKeys, l.origins["lookup.max-keys"])
	}
	l.checkKafkaTLS(broken)
	l.checkKafkaSASL(broken)
	mistakes = append(mistakes, l.checkSecurity()...)
	listeners := []struct{ path, address string }{
		{"grpc.address", l.GRPC.Address},
		{"http.address", l.HTTP.Address},
		{"admin.address", l.Admin.Address},
	}
	for i, later := range listeners {
		if !listens {
			break
		}
		for _, earlier := range listeners[:i] {
			if clash(earlier.address, later.address) {
				broken(later.path, "%s is taken by %s, which is %s (%s)",
					later.address, earlier.path, earlier.address, l.origins[earlier.path])
			}
		}
	}
	return mistakes
}

// clash reports whether two listeners could not both be opened.
func clash(a, b string) bool {
	hostA, portA, _ := net.SplitHostPort(a)
	hostB, portB, _ := net.SplitHostPort(b)
	if portA != portB || portA == "0" {
		return false
	}
	return hostA == hostB || everyAddress(hostA) || everyAddress(hostB)
}

func everyAddress(host string) bool {
	return host == "" || host == "0.0.0.0" || host == "::"
}
