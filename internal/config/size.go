package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes.
type Size int64

// sizeUnits are the units of sizes, the largest first. Kilobytes of a thousand bytes
// are left out: few who write KB mean them.
var sizeUnits = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// String writes the size in the largest unit that it is a whole number of.
func (s Size) String() string {
	for _, unit := range sizeUnits {
		if int64(s)%unit.bytes == 0 && int64(s) != 0 {
			return strconv.FormatInt(int64(s)/unit.bytes, 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

func parseSize(text string) (Size, error) {
	for _, unit := range sizeUnits {
		digits, found := strings.CutSuffix(text, unit.name)
		if !found {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/unit.bytes {
			break
		}
		return Size(n * unit.bytes), nil
	}
	if _, err := strconv.ParseInt(text, 10, 64); err == nil {
		return 0, fmt.Errorf("%q has no unit; write %sB for bytes, or use KiB, MiB or GiB", text, text)
	}
	return 0, fmt.Errorf("%q is not a size; write for example 512KiB, 8MiB or 1GiB", text)
}

func sizes(low, high Size) Limit {
	return Limit{
		Min: low.String(), Max: high.String(),
		check: func(value any) error {
			if s := value.(Size); s < low || s > high {
				return fmt.Errorf("%s is out of range; give %s to %s", s, low, high)
			}
			return nil
		},
	}
}
