// Package reload keeps values that are made from files (a certificate and its
// key, a list of tokens) and makes them anew when the files change.
//
// Files are compared by content, by reading them every few seconds. Watching for
// file events is not enough: Kubernetes swaps a symlink two levels up (..data), so
// that a watch on the file itself sees one change and then never another.
//
// A change that cannot be used, because a file is gone, half-written or wrong,
// changes nothing: the value made before stays in use, the mistake is logged once
// and stands in Status until it is mended.
package reload
