package config

import "strings"

// nearest returns the candidate that was probably meant, or "". A candidate is
// also met by its last part: "brokers" means kafka.brokers.
func nearest(given string, candidates []string) string {
	given = strings.ToLower(given)
	best, bestDistance := "", (len(given)+1)/3+1
	for _, candidate := range candidates {
		lower := strings.ToLower(candidate)
		distance := editDistance(given, lower)
		if i := strings.LastIndexByte(lower, '.'); i >= 0 && !strings.Contains(given, ".") {
			distance = min(distance, editDistance(given, lower[i+1:]))
		}
		if distance < bestDistance {
			best, bestDistance = candidate, distance
		}
	}
	return best
}

func didYouMean(candidate string) string {
	if candidate == "" {
		return ""
	}
	return "; did you mean " + candidate + "?"
}

// editDistance is the number of bytes to insert, delete or change (Levenshtein).
// Names longer than any of ours are not worth the time: they are far from all.
func editDistance(a, b string) int {
	if max(len(a), len(b)) > 100 {
		return max(len(a), len(b))
	}
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
