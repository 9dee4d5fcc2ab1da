// Package spelling finds what was probably meant by a name that does not exist.
package spelling

import "strings"

// longest is the longest name that is compared: longer ones are no slips of a finger.
const longest = 100

// Nearest is the candidate that was probably meant, or "". Letters of either case are
// equal, and so are the words of a name whatever joins them: dial-timeout,
// dial_timeout, dialTimeout. A candidate is also met by its last part: "brokers" means
// kafka.brokers.
func Nearest(given string, candidates []string) string {
	if len(given) > longest {
		return ""
	}
	folded := fold(given)
	best, bestDistance := "", (len(folded)+1)/3+1
	for _, candidate := range candidates {
		full := fold(candidate)
		distance := editDistance(folded, full)
		if i := strings.LastIndexByte(full, '.'); i >= 0 && !strings.Contains(folded, ".") {
			distance = min(distance, editDistance(folded, full[i+1:]))
		}
		if distance < bestDistance {
			best, bestDistance = candidate, distance
		}
	}
	return best
}

var joints = strings.NewReplacer("_", "", "-", "")

func fold(name string) string { return joints.Replace(strings.ToLower(name)) }

// editDistance is the number of bytes to insert, delete or change (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
