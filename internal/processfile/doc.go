// Package processfile reads and writes process files: the YAML that people keep under version control, and the JSON of
// /api/v1, field for field. It knows each field's type, default, class and meaning, and finds all faults of a file at
// once. It converts a process between this form (v1.Spec) and the form that servers and agents store (process.Spec).
// It does no I/O.
package processfile
