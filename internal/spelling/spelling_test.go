package spelling

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNearest(t *testing.T) {
	candidates := []string{"kafka.brokers", "kafka.dial-timeout", "log.level", "keyType", "keys", "timeout"}
	for given, want := range map[string]string{
		"kafka.broker":                  "kafka.brokers",
		"brokers":                       "kafka.brokers",
		"KAFKA.DIAL_TIMEOUT":            "kafka.dial-timeout",
		"kafka.dialTimeout":             "kafka.dial-timeout",
		"lgo.level":                     "log.level",
		"key_type":                      "keyType",
		"keytipe":                       "keyType",
		"key":                           "keys",
		"tiemout":                       "timeout",
		"password":                      "",
		"x":                             "",
		"":                              "",
		strings.Repeat("keys", 100_000): "",
	} {
		require.Equal(t, want, Nearest(given, candidates), given[:min(len(given), 20)])
	}
}
