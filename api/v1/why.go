package v1

// Why explains the states of processes.
type Why struct {
	// Findings are the worst findings, up to the limit of the filter.
	Findings []Finding `json:"findings"`
	// Causes counts the first causes of all findings, the worst and most frequent first.
	Causes []CauseCount `json:"causes"`
	// Wrong counts the processes that are not as they should be because of a requested cause; Total counts all examined
	// processes.
	Wrong int `json:"wrong"`
	Total int `json:"total"`
}

// Finding explains the state of one process on one host.
type Finding struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Host      Host   `json:"host"`
	// State is empty if the host has never reported the process.
	State string `json:"state,omitempty"`
	// Wrong tells that the process is not as it should be. Severity is critical, warning or notice.
	Wrong    bool   `json:"wrong"`
	Severity string `json:"severity"`
	Cause    Cause  `json:"cause"`
	// Further are the other causes, the worst first.
	Further []Cause `json:"further,omitempty"`
	// Then is the cause in the host's last report, if the host is away.
	Then *Cause `json:"then,omitempty"`
	// Impact is one clause that says what the state means for the process.
	Impact string `json:"impact"`
}

// CauseCount is the frequency of a cause, with its catalogue entry. Page is a path relative to the root of drover's
// repository.
type CauseCount struct {
	ID       string `json:"id"`
	Title    string `json:"title"`
	Severity string `json:"severity"`
	Count    int    `json:"count"`
	Meaning  string `json:"meaning"`
	Remedy   string `json:"remedy"`
	Page     string `json:"page"`
}
