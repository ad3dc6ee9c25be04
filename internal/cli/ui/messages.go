package ui

import (
	"time"

	v1 "drover/api/v1"
	"drover/client"
)

// Do is something that Update wants done. The answer to it is a message.
type Do any

// What Update wants done.
type (
	// Ask asks for what a place shows: the answer is Listed. count asks for the number of processes, too.
	Ask struct {
		Number int
		place  place
		count  bool
	}
	// Follow asks for the events of a list of processes or events, until another Follow: the answers are Happened.
	Follow struct{ place place }
	// Choose has the server hold processes for an operation: all that match, but some, or those on which a task has
	// failed. The answer is Chosen.
	Choose struct {
		Op       string
		all      *everything
		failedOf string
	}
	// Submit begins an operation on processes, or on the processes that the server holds: the answer is Submitted. Rows
	// are the rows that show its task. With a plan it is a rollout.
	Submit struct {
		Op        string
		Targets   []v1.Process
		Selection string
		Rows      []string
		plan      *v1.RolloutPlan
	}
	// Watch asks for a task: the answer is Watched.
	Watch struct{ ID string }
	// Step does something with a rollout: the answer is Stepped.
	Step struct{ Verb, ID string }
	// Cancel cancels what has not begun of a task: the answer is Cancelled.
	Cancel struct{ ID string }
	// Add makes a token for hosts, or gives a person a right: the answer is Added.
	Add struct {
		kind  kind
		token client.NewJoinToken
		name  string
		right v1.Grant
	}
	// Link makes a link that signs a person in: the answer is Added.
	Link struct{ User string }
	// ReadLog reads logs until they end or until another ReadLog or CloseLog: the answers are LogRead.
	ReadLog struct {
		Number int
		of     []subject
		run    int
		follow bool
	}
	// CloseLog ends the reading of a log.
	CloseLog struct{}
	// Copy gives a text to the clipboard of the terminal.
	Copy string
	// Leave ends the screen.
	Leave struct{}
)

// The messages beside those of the terminal. Refused and Err are texts for people; empty means success.
type (
	// Tick is the time; it comes every second.
	Tick time.Time
	// Notice is what the server says about its answers.
	Notice string
	// Listed is the answer to Ask: rows with the cursor of the next page, or lines of a text. Away is set if there was
	// no answer.
	Listed struct {
		Number  int
		At      time.Time
		Items   []any
		Next    string
		Lines   []string
		Task    *v1.Task
		Counts  *v1.ProcessCounts
		Wrong   int
		Away    error
		Refused string
	}
	// Happened tells that something has happened in a list, or that the screen has lost its events.
	Happened struct {
		of   place
		Lost bool
	}
	// Chosen is what the server holds for an operation.
	Chosen struct {
		Op        string
		all       *everything
		failedOf  string
		Selection v1.Selection
		Err       string
	}
	// Submitted tells what became of Submit.
	Submitted struct {
		Op      string
		Rows    []string
		Task    v1.Task
		Rollout v1.Rollout
		Err     string
	}
	// Watched is the progress of a task. Away is set if there was no answer.
	Watched struct {
		ID   string
		Task v1.Task
		Away bool
		Err  string
	}
	// Stepped tells what became of Step.
	Stepped struct{ Verb, ID, State, Err string }
	// Cancelled tells what became of Cancel.
	Cancelled struct {
		ID     string
		Answer v1.Cancellation
		Err    string
	}
	// Added is what the server has made, and the place that shows it.
	Added struct {
		place place
		Err   string
	}
	// LogRead are lines of logs, or their end.
	LogRead struct {
		Number int
		Lines  []LogLine
		Ended  bool
	}
	// LogLine is a line of the log with the number Of among those of ReadLog.
	LogLine struct {
		Of   int
		Text string
	}
)
