package gse

import "encoding/json"

// The readers below fill the fields of their structs, by the names in the tags. A repeated member is read over the
// earlier value.

func (b *multiBody) read(s *scanner) {
	const list = "proc_operate_req"
	s.object("", func(name []byte) {
		if string(name) != list {
			s.value()
			return
		}
		b.Requests = nil
		s.array(list, func() {
			b.Requests = append(b.Requests, operateBody{})
			s.below(list, func() { b.Requests[len(b.Requests)-1].read(s) })
		})
	})
}

func (b *operateBody) read(s *scanner) {
	s.object("", func(name []byte) {
		switch string(name) {
		case "meta":
			b.Meta = pointed(s, func(m *meta) { m.read("meta", s) })
		case "op_type":
			s.scalar(&b.OpType)
		case "spec":
			b.Spec = s.value()
		default:
			b.member(name, s)
		}
	})
}

// member reads one member of a body; targets has hosts and agent_id_list.
func (b *targets) member(name []byte, s *scanner) {
	switch string(name) {
	case "hosts":
		b.Hosts = readHosts("hosts", s)
	case "agent_id_list":
		b.Agents = nil
		s.array("agent_id_list", func() {
			b.Agents = append(b.Agents, Str{})
			s.scalar(&b.Agents[len(b.Agents)-1])
		})
	default:
		s.value()
	}
}

func (b *targets) read(s *scanner) {
	s.object("", func(name []byte) { b.member(name, s) })
}

func readHosts(field string, s *scanner) (hosts []host) {
	s.array(field, func() {
		hosts = append(hosts, host{})
		h := &hosts[len(hosts)-1]
		s.object(field, func(name []byte) { h.member(name, s) })
	})
	return hosts
}

// pointed reads a value that may be null.
func pointed[T any](s *scanner, read func(*T)) *T {
	if s.peek() == 'n' {
		s.value()
		return nil
	}
	v := new(T)
	read(v)
	return v
}

func (m *meta) read(field string, s *scanner) {
	s.object(field, func(name []byte) {
		switch string(name) {
		case "namespace":
			s.scalar(&m.Namespace)
		case "name":
			s.scalar(&m.Name)
		case "labels":
			m.Labels = append(json.RawMessage(nil), s.value()...) // it outlives the body
		default:
			s.value()
		}
	})
}

func (h *host) member(name []byte, s *scanner) {
	switch string(name) {
	case "ip":
		s.scalar(&h.IP)
	case "bk_cloud_id":
		s.scalar(&h.Cloud)
	case "bk_supplier_id":
		s.scalar(&h.Supplier)
	default:
		s.value()
	}
}

func (b *specBody) read(s *scanner) {
	s.object("", func(name []byte) {
		switch string(name) {
		case "identity":
			b.Identity = pointed(s, func(i *identityBody) { i.read(s) })
		case "control":
			b.Control = pointed(s, func(c *controlBody) { c.read(s) })
		case "resource":
			b.Resource = pointed(s, func(r *resourceBody) { r.read(s) })
		case "monitor_policy":
			b.Monitor = pointed(s, func(p *policyBody) { p.read("monitor_policy", s) })
		case "alive_monitor_policy":
			b.Alive = pointed(s, func(p *policyBody) { p.read("alive_monitor_policy", s) })
		case "warn_report_policy":
			b.Warn = pointed(s, func(w *warnBody) { w.read(s) })
		case "configmap":
			b.Configs = nil
			s.array("configmap", func() {
				b.Configs = append(b.Configs, configBody{})
				b.Configs[len(b.Configs)-1].read(s)
			})
		default:
			s.value()
		}
	})
}

func (i *identityBody) read(s *scanner) {
	s.object("identity", func(name []byte) {
		switch string(name) {
		case "proc_name":
			s.scalar(&i.ProcName)
		case "setup_path":
			s.scalar(&i.SetupPath)
		case "pid_path":
			s.scalar(&i.PIDPath)
		case "config_path":
			s.scalar(&i.ConfigPath)
		case "log_path":
			s.scalar(&i.LogPath)
		case "user":
			s.scalar(&i.User)
		default:
			s.value()
		}
	})
}

func (c *controlBody) read(s *scanner) {
	s.object("control", func(name []byte) {
		switch string(name) {
		case "start_cmd":
			s.scalar(&c.Start)
		case "stop_cmd":
			s.scalar(&c.Stop)
		case "restart_cmd":
			s.scalar(&c.Restart)
		case "reload_cmd":
			s.scalar(&c.Reload)
		case "kill_cmd":
			s.scalar(&c.Kill)
		case "version_cmd":
			s.scalar(&c.Version)
		case "health_cmd":
			s.scalar(&c.Health)
		default:
			s.value()
		}
	})
}

func (r *resourceBody) read(s *scanner) {
	s.object("resource", func(name []byte) {
		switch string(name) {
		case "cpu":
			s.scalar(&r.CPU)
		case "mem":
			s.scalar(&r.Mem)
		case "fd":
			s.scalar(&r.FD)
		case "disk":
			s.scalar(&r.Disk)
		case "net":
			s.scalar(&r.Net)
		default:
			s.value()
		}
	})
}

func (p *policyBody) read(field string, s *scanner) {
	s.object(field, func(name []byte) {
		switch string(name) {
		case "auto_type":
			s.scalar(&p.AutoType)
		case "start_check_secs":
			s.scalar(&p.StartCheck)
		case "stop_check_secs":
			s.scalar(&p.StopCheck)
		case "start_retries":
			s.scalar(&p.StartRetries)
		case "start_interval":
			s.scalar(&p.StartInterval)
		case "op_timeout":
			s.scalar(&p.OpTimeout)
		case "crontab_rule":
			s.scalar(&p.Crontab)
		case "crotab_rule":
			s.scalar(&p.Crotab)
		default:
			s.value()
		}
	})
}

func (w *warnBody) read(s *scanner) {
	s.object("warn_report_policy", func(name []byte) {
		if string(name) == "report_id" {
			s.scalar(&w.ReportID)
			return
		}
		s.value()
	})
}

func (c *configBody) read(s *scanner) {
	s.object("configmap", func(name []byte) {
		switch string(name) {
		case "path":
			s.scalar(&c.Path)
		case "md5":
			s.scalar(&c.MD5)
		default:
			s.value()
		}
	})
}

func (b *groupBody) read(s *scanner) {
	s.object("", func(name []byte) {
		switch string(name) {
		case "meta":
			b.Meta = pointed(s, func(m *meta) { m.read("meta", s) })
		case "spec":
			b.Spec = pointed(s, func(spec *groupsBody) { spec.read(s) })
		default:
			b.member(name, s)
		}
	})
}

func (b *groupsBody) read(s *scanner) {
	const list = "spec.process_group"
	s.object("spec", func(name []byte) {
		if string(name) != "process_group" {
			s.value()
			return
		}
		b.Groups = nil
		if s.peek() == '[' {
			b.Groups = []poolBody{} // an empty list differs from a missing list
		}
		s.array(list, func() {
			b.Groups = append(b.Groups, poolBody{})
			g := &b.Groups[len(b.Groups)-1]
			s.object(list, func(name []byte) {
				switch string(name) {
				case "id":
					s.scalar(&g.ID)
				case "resource":
					g.Resource = pointed(s, func(r *poolResource) { r.read(list+".resource", s) })
				default:
					s.value()
				}
			})
		})
	})
}

func (r *poolResource) read(field string, s *scanner) {
	s.object(field, func(name []byte) {
		switch string(name) {
		case "cpu_pool_limit":
			s.scalar(&r.CPULimit)
		case "mem_pool_limit":
			s.scalar(&r.MemLimit)
		case "cpu_pool_weight":
			s.scalar(&r.CPUWeight)
		case "mem_pool_weight":
			s.scalar(&r.MemWeight)
		default:
			s.value()
		}
	})
}

func (b *syncBody) read(s *scanner) {
	s.object("", func(name []byte) {
		switch string(name) {
		case "meta":
			b.Meta = pointed(s, func(m *meta) { m.read("meta", s) })
		case "page":
			b.Page = pointed(s, func(p *pageBody) {
				s.object("page", func(name []byte) {
					switch string(name) {
					case "start":
						s.scalar(&p.Start)
					case "limit":
						s.scalar(&p.Limit)
					default:
						s.value()
					}
				})
			})
		default:
			s.value()
		}
	})
}

func (b *upgradeBody) read(s *scanner) {
	s.object("", func(name []byte) {
		if string(name) != "hosts" {
			s.value()
			return
		}
		b.Hosts, b.IDs = nil, nil
		s.array("hosts", func() {
			b.Hosts, b.IDs = append(b.Hosts, host{}), append(b.IDs, Str{})
			h, id := &b.Hosts[len(b.Hosts)-1], &b.IDs[len(b.IDs)-1]
			s.object("hosts", func(name []byte) {
				if string(name) == "bk_agent_id" {
					s.scalar(id)
					return
				}
				h.member(name, s)
			})
		})
	})
}

// member reads one member of a body; jobScope has the fields of the scope.
func (b *jobScope) member(name []byte, s *scanner) {
	switch string(name) {
	case "bk_biz_id":
		s.scalar(&b.Biz)
	case "bk_scope_type":
		s.scalar(&b.ScopeType)
	case "bk_scope_id":
		s.scalar(&b.ScopeID)
	default:
		s.value()
	}
}

func (b *jobBody) read(s *scanner) {
	const list = "process_infos"
	s.object("", func(name []byte) {
		switch string(name) {
		case "op_type":
			s.scalar(&b.OpType)
		case list:
			b.Processes = nil
			s.array(list, func() {
				b.Processes = append(b.Processes, jobProcess{})
				s.below(list, func() { b.Processes[len(b.Processes)-1].read(s) })
			})
		default:
			b.member(name, s)
		}
	})
}

func (p *jobProcess) read(s *scanner) {
	s.object("", func(name []byte) {
		switch string(name) {
		case "setup_path":
			s.scalar(&p.SetupPath)
		case "proc_name":
			s.scalar(&p.ProcName)
		case "pid_path":
			s.scalar(&p.PIDPath)
		case "cfg_path":
			s.scalar(&p.CfgPath)
		case "log_path":
			s.scalar(&p.LogPath)
		case "contact":
			s.scalar(&p.Contact)
		case "proc_owner":
			s.scalar(&p.Owner)
		case "func_id":
			s.scalar(&p.FuncID)
		case "instance_id":
			s.scalar(&p.InstanceID)
		case "value_key":
			s.scalar(&p.ValueKey)
		case "account":
			s.scalar(&p.Account)
		case "cmd_shell_ext":
			s.scalar(&p.Extension)
		case "ip_list":
			p.Hosts = readHosts("ip_list", s)
		case "start_cmd":
			s.scalar(&p.Start)
		case "stop_cmd":
			s.scalar(&p.Stop)
		case "restart_cmd":
			s.scalar(&p.Restart)
		case "reload_cmd":
			s.scalar(&p.Reload)
		case "kill_cmd":
			s.scalar(&p.Kill)
		default:
			p.jobPolicy.member(name, s)
		}
	})
}

func (p *jobPolicy) member(name []byte, s *scanner) {
	switch string(name) {
	case "type":
		s.scalar(&p.Type)
	case "cycle_time":
		s.scalar(&p.CycleTime)
	case "instance_num":
		s.scalar(&p.Instances)
	case "start_check_begin_time":
		s.scalar(&p.CheckBegin)
	case "start_check_end_time":
		s.scalar(&p.CheckEnd)
	case "op_timeout":
		s.scalar(&p.OpTimeout)
	case "cpu_lmt":
		s.scalar(&p.CPULimit)
	case "mem_lmt":
		s.scalar(&p.MemLimit)
	default:
		s.value()
	}
}

// ReadTexts reads the members of an object that are in the map, as texts, and ignores all other members. If object is
// not a JSON object, the texts stay unchanged.
func ReadTexts(object []byte, texts map[string]*Str) error {
	return scan(object, func(s *scanner) {
		s.object("", func(name []byte) {
			if text := texts[string(name)]; text != nil {
				s.scalar(text)
				return
			}
			s.value()
		})
	})
}
