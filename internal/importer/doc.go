// Package importer converts units of systemd and configuration files of supervisord to processes of a process file. A
// setting without a counterpart becomes a comment at its process. It does no I/O: its callers read the files.
package importer
