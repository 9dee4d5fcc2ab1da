package auth

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// subjects are the certificates that may call. An entry is a SPIFFE id, which is
// compared with the certificate's URI names, or a name, which is compared with
// its DNS names and its common name. An entry that ends in a star stands for all
// that begin so.
type subjects []pattern

func parseSubjects(entries []string) (subjects, error) {
	list := make(subjects, 0, len(entries))
	for _, entry := range entries {
		name, _ := strings.CutSuffix(entry, "*")
		switch {
		case name == "":
			return nil, fmt.Errorf("%q allows every certificate: leave the setting out for that", entry)
		case strings.Contains(name, "*"):
			return nil, fmt.Errorf("%q has a star that is not at its end", entry)
		case strings.HasPrefix(name, "spiffe://"):
			if err := checkSPIFFE(name); err != nil {
				return nil, fmt.Errorf("%q: %w", entry, err)
			}
		case strings.ContainsAny(name, "=,/"):
			return nil, fmt.Errorf("%q is neither a common name, a DNS name nor a SPIFFE id (spiffe://trust-domain/path); "+
				"of CN=orders,O=Example write orders", entry)
		}
		list = append(list, pattern(normalName(entry)))
	}
	return list, nil
}

// checkSPIFFE wants the trust domain whole, so that spiffe://prod* cannot match
// the trust domain of somebody else.
func checkSPIFFE(id string) error {
	u, err := url.Parse(id)
	switch {
	case err != nil:
		return errors.New("is not a valid SPIFFE id")
	case u.Host == "" || u.Path == "":
		return errors.New("a SPIFFE id has a trust domain and a path, for example spiffe://prod.example/orders or spiffe://prod.example/*")
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil || u.Port() != "":
		return errors.New("a SPIFFE id has no query, fragment, user or port")
	}
	return nil
}

// normalName makes names comparable: those of the DNS in lower case. Of a SPIFFE
// id the path is as it is; its trust domain is in lower case by its specification.
func normalName(name string) string {
	if strings.HasPrefix(name, "spiffe://") {
		return name
	}
	return strings.ToLower(name)
}

// namesOf are the names of a certificate: URIs, DNS names, common name.
func namesOf(leaf *x509.Certificate) []string {
	names := make([]string, 0, len(leaf.URIs)+len(leaf.DNSNames)+1)
	for _, uri := range leaf.URIs {
		names = append(names, uri.String())
	}
	for _, name := range leaf.DNSNames {
		names = append(names, normalName(name))
	}
	// A common name that looks like a SPIFFE id is none: only URIs are.
	if name := normalName(leaf.Subject.CommonName); name != "" && !strings.Contains(name, "://") && !slices.Contains(names, name) {
		names = append(names, name)
	}
	return names
}

// names returns the names of a certificate that the handshake
// has verified.
func (s subjects) names(state *tls.ConnectionState) ([]string, *RefusalError) {
	if state == nil || len(state.VerifiedChains) == 0 || len(state.PeerCertificates) == 0 {
		// The handshake lets no such connection through: this is the second lock.
		return nil, refuse(Unauthenticated, CauseNoCredentials, "the call came without a client certificate")
	}
	names := namesOf(state.PeerCertificates[0])
	if len(s) > 0 && !slices.ContainsFunc(s, func(p pattern) bool { return slices.ContainsFunc(names, p.matches) }) {
		return nil, refuse(Denied, CauseSubjectNotAllowed,
			"no name of the client certificate (%s) is one of those that may call: see the setting auth.allowed-subjects", shown(names))
	}
	for i, name := range names {
		names[i] = "cert:" + name
	}
	return names, nil
}

// shown is at most a few names, none long: a certificate may have thousands.
func shown(names []string) string {
	const most = 5
	list := make([]string, 0, most+1)
	for _, name := range names[:min(len(names), most)] {
		list = append(list, clip(name))
	}
	if len(names) > most {
		list = append(list, fmt.Sprintf("and %d more", len(names)-most))
	}
	if len(list) == 0 {
		return "it has none"
	}
	return strings.Join(list, ", ")
}

// clip quotes what a caller sent, and keeps it short enough to be part of a message.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return fmt.Sprintf("%q", s)
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return fmt.Sprintf("%q…", s[:cut])
}
