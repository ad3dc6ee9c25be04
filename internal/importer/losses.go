package importer

import "strings"

// loss says what drover does not do, and by which settings one knows it.
type loss struct{ text, keys string }

// unknownLoss is what is said of all other settings.
const unknownLoss = "drover has nothing like it"

// losses are in the order of the comments. A key ends with * for all keys that begin so.
func losses() []loss {
	return []loss{
		{
			"drover does not separate the process from the file system, devices or network of the host",
			"Private* Protect* ReadWritePaths ReadOnlyPaths InaccessiblePaths ExecPaths NoExecPaths TemporaryFileSystem " +
				"BindPaths BindReadOnlyPaths RootDirectory RootImage MountFlags MountAPIVFS DeviceAllow DevicePolicy " +
				"IPAddress* IPIngress* IPEgress* RestrictNetworkInterfaces SocketBind* JoinsNamespaceOf NetworkNamespacePath",
		},
		{
			"drover does not filter what the process asks of the kernel",
			"SystemCall* Restrict* LockPersonality MemoryDenyWriteExecute SecureBits SELinuxContext AppArmorProfile " +
				"SmackProcessLabel KeyringMode RemoveIPC Personality",
		},
		{
			"drover keeps the output itself, see drover logs",
			"StandardOutput StandardError Syslog* LogLevelMax LogExtraFields LogRateLimit* LogNamespace",
		},
		{"the process has no standard input", "StandardInput* TTY* UtmpIdentifier UtmpMode"},
		{"drover starts the process all the same", "Condition* Assert* Conflicts RequiresMountsFor"},
		{
			"drover limits memory, processor time and tasks only",
			"Memory* CPU* IO* BlockIO* Tasks* Slice Delegate* Limit* StartupCPUWeight StartupIOWeight ManagedOOM*",
		},
		{"drover sends alarms and receivers instead", "OnFailure OnSuccess OnFailureJobMode OnSuccessJobMode"},
		{
			"drover does not carry operations from one process to another",
			"PartOf Upholds PropagatesReloadTo ReloadPropagatedFrom PropagatesStopTo StopPropagatedFrom",
		},
		{"drover keeps no secrets for a process", "LoadCredential* SetCredential* ImportCredential"},
		{"drover opens no files or sockets for a process", "Sockets FileDescriptorStore* OpenFile NonBlocking"},
		{unknownLoss, ""},
	}
}

// silent are settings without a loss: texts for readers, what the conversion of units has read, and what only says how
// systemd finds the unit.
const silent = "Description Documentation After Before Requires Wants BindsTo Requisite DefaultDependencies " +
	"CollectMode SourcePath RefuseManual* AllowIsolate IgnoreOnIsolate StopWhenUnneeded StartLimitInterval* " +
	"StartLimitBurst *Accounting"

// lossOf says what is lost without a setting; empty if nothing is.
func lossOf(s setting) string {
	if s.section == "Install" || strings.HasPrefix(s.section, "X-") || strings.HasPrefix(s.key, "X-") ||
		matches(s.key, silent) {
		return ""
	}
	if isDefault(s) {
		return ""
	}
	quiet := map[string]string{
		"StandardOutput": "inherit journal", "StandardError": "inherit journal", "StandardInput": "null",
		"Conflicts": "shutdown.target", "KillMode": "control-group mixed",
	}
	if strings.Contains(" "+quiet[s.key]+" ", " "+s.value+" ") {
		return ""
	}
	for _, l := range losses() {
		if matches(s.key, l.keys) {
			return l.text
		}
	}
	return unknownLoss
}

// isDefault reports whether a setting that systemd has in any case loses nothing. A 0 can be a limit.
func isDefault(s setting) bool {
	switch strings.ToLower(s.value) {
	case "no", "false", "n", "f", "off":
		return !matches(s.key, "DefaultDependencies GuessMainPID IgnoreSIGPIPE SendSIGKILL SyslogLevelPrefix")
	case "0":
		return matches(s.key, "Private* Protect* Restrict* LockPersonality MemoryDenyWriteExecute NonBlocking RemoveIPC")
	case "infinity":
		return matches(s.key, "Memory* Tasks*")
	case "auto":
		return matches(s.key, "DevicePolicy ManagedOOM*")
	case "default":
		return s.key == "ProtectProc"
	case "all":
		return s.key == "ProcSubset"
	}
	return false
}

func matches(key, patterns string) bool {
	for p := range strings.FieldsSeq(patterns) {
		before, open := strings.CutSuffix(p, "*")
		after, end := strings.CutPrefix(p, "*")
		if p == key || open && strings.HasPrefix(key, before) || end && strings.HasSuffix(key, after) {
			return true
		}
	}
	return false
}
