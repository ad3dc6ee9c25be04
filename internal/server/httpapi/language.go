package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
)

// wantsChinese reports whether the caller asks for messages in Chinese. The default is English.
func wantsChinese(r *http.Request) bool {
	language := strings.ToLower(strings.ReplaceAll(r.Header.Get("Blueking-Language"), "_", "-"))
	return language == "zh" || strings.HasPrefix(language, "zh-")
}

// in returns the text for the caller, in Chinese if the caller asks for it and a translation exists.
func (r *refusal) in(chinese bool) string {
	if words, ok := chineseWords()[r.format]; ok && chinese {
		return fmt.Sprintf(words, r.args...)
	}
	return r.reason
}

// chineseWords returns the Chinese form of each English message; both forms have the same arguments in the same order.
func chineseWords() map[string]string {
	words := chineseRefusals()
	maps.Copy(words, chineseMisreads())
	return words
}

// chineseRefusals has the refusals of calls.
func chineseRefusals() map[string]string {
	return map[string]string{
		// credentials
		"APP Code [bk_app_code] cannot be empty":                     "应用编码 [bk_app_code] 不能为空",
		"app code cannot be empty":                                   "应用编码不能为空",
		"APP Secret [bk_app_secret] cannot be empty":                 "应用密钥 [bk_app_secret] 不能为空",
		"please provide bk_app_secret or bk_signature to verify app": "请提供 bk_app_secret 或 bk_signature 以验证应用",
		"access_token is invalid, please provide bk_app_secret":      "access_token 无效，请提供 bk_app_secret",
		"bk_app_code or bk_app_secret is incorrect":                  "bk_app_code 或 bk_app_secret 不正确",
		"Invalid APP Code [bk_app_code=%s], please check":            "应用编码 [bk_app_code=%s] 无效，请检查",
		"Invalid APP Code [bk_app_code=%s], the app is disabled":     "应用编码 [bk_app_code=%s] 无效，该应用已停用",
		"app is disabled": "应用已停用",
		"User authentication failed, bk_username is longer than %d bytes": "用户认证失败，bk_username 超过 %d 字节",
		"User authentication failed, the user is disabled":                "用户认证失败，该用户已停用",
		"User authentication failed, bk_username holds a control character or is not valid UTF-8": "用户认证失败，" +
			"bk_username 含有控制字符或不是有效的 UTF-8",
		"verify access_token failed, access tokens are not in use here, please provide bk_app_secret": "access_token 校验失败，" +
			"此处不使用 access_token，请提供 bk_app_secret",
		"Signature [bk_signature] verification failed, signatures cannot be verified here, please provide bk_app_secret": "签名 [bk_signature] 校验失败，" +
			"此处无法校验签名，请提供 bk_app_secret",
		"please provide bk_app_secret to verify app, bk_signature cannot be verified here":                "请提供 bk_app_secret 以验证应用，此处无法校验 bk_signature",
		"APP Secret verification failed, please check if the bk_app_secret is correct":                    "应用密钥校验失败，请检查 bk_app_secret 是否正确",
		"User authentication failed, please provide a valid user identity, such as bk_token, bk_username": "用户认证失败，请提供有效的用户身份信息，如 bk_token、bk_username",
		"User authentication failed, please provide a valid user identity, such as bk_token: the app may not name a user by bk_username": "用户认证失败，" +
			"请提供有效的用户身份信息，如 bk_token：该应用无权用 bk_username 指定用户",
		"User authentication failed, please check if the bk_token is valid":                 "用户认证失败，请检查 bk_token 是否有效",
		"too many wrong secrets came from this address, try again later":                    "该地址提交的错误密钥过多，请稍后重试",
		"User authentication failed, the login service could not be asked: try again later": "用户认证失败，登录服务暂不可用，请稍后重试",
		"request header X-Bkapi-Authorization is not a JSON object":                         "请求头 X-Bkapi-Authorization 不是 JSON 对象",
		"request header Bk-App-Code or Bk-Username is there more than once":                 "请求头 Bk-App-Code 或 Bk-Username 出现多次",

		// rights and limits
		"app %s has no right to %s":                       "应用 %s 没有权限：%s",
		"app %s has no right to %s (and %d more)":         "应用 %s 没有权限：%s（另有 %d 项）",
		"API rate limit exceeded by app %s":               "应用 %s 的请求频率超过限制",
		"Request concurrency exceeds the limit of app %s": "应用 %s 的并发请求数超过限制",

		"%d operations are under way, of at most %d: try again in %d s": "正在执行的操作有 %d 个，上限为 %d 个：请在 %d 秒后重试",

		// requests
		"Request JSON string is wrong in format, it is not valid UTF-8":                                "请求的 JSON 格式错误：不是有效的 UTF-8",
		"Request JSON string is wrong in format, it begins with a byte order mark":                     "请求的 JSON 格式错误：以字节顺序标记（BOM）开头",
		"Request JSON string is wrong in format, it is not an object":                                  "请求的 JSON 格式错误：不是 JSON 对象",
		"Request body is neither a JSON object nor a form":                                             "请求体既不是 JSON 对象也不是表单",
		"Request parameters are not valid UTF-8":                                                       "请求参数不是有效的 UTF-8",
		"request body is larger than %d MB":                                                            "请求体超过 %d MB",
		"request body is larger than %d MB: larger ones need the credentials in X-Bkapi-Authorization": "请求体超过 %d MB：更大的请求须在请求头 X-Bkapi-Authorization 中提供凭证",
		"request body arrives too slowly":                                                              "请求体传输过慢",
		"Request body is a form that is too large: expected at most %d fields and %d MB":               "表单请求体过大：最多 %d 个字段、%d MB",
		"app %s has no rights: grant rights with 'drover app grant'":                                   "应用 %s 没有任何权限：请用 drover app grant 授权",
		"request body could not be read to its end":                                                    "请求体未能读取完整",
		"request body is encoded as %.40q: expected one without Content-Encoding":                      "请求体的编码为 %.40q：不支持 Content-Encoding",
		"too many large requests at the same time, try again later":                                    "同时处理的大请求过多，请稍后重试",
		"Parameters error [reason=%q]":                                                                 "参数错误 [reason=%q]",
		"Method not allowed [method=%.16q path=%.200q]":                                                "请求方法不支持 [method=%.16q path=%.200q]",
		"API not found [method=%.16q path=%.200q]":                                                     "API 不存在 [method=%.16q path=%.200q]",
		"task_id %q does not exist":                                                                    "任务 task_id %q 不存在",
		"cannot %s: try again later":                                                                   "服务暂时无法处理该请求（%s），请稍后重试",
	}
}

// chineseMisreads has the errors of the body readers.
func chineseMisreads() map[string]string {
	return map[string]string{
		"Request JSON string is wrong in format, it is nested more than %d deep":     "请求的 JSON 格式错误：嵌套超过 %d 层",
		"Request JSON string is wrong in format, it ends too early":                  "请求的 JSON 格式错误：内容不完整",
		"Request JSON string is wrong in format, %q is not expected at byte %d":      "请求的 JSON 格式错误：%q 不应出现在第 %d 字节",
		"Request JSON string is wrong in format, the body is of the wrong type: %s":  "请求的 JSON 格式错误：请求体的类型不对：%s",
		"parameters error: %s is missing":                                            "参数错误：缺少 %s",
		"parameters error: %s is empty":                                              "参数错误：%s 为空",
		"parameters error: %s is blank":                                              "参数错误：%s 为空白",
		"parameters error: %s is not a string: %s":                                   "参数错误：%s 不是字符串：%s",
		"parameters error: %s is not an integer: %s":                                 "参数错误：%s 不是整数：%s",
		"parameters error: %s is not a number: %s":                                   "参数错误：%s 不是数值：%s",
		"parameters error: %s is of the wrong type: %s":                              "参数错误：%s 的类型不对：%s",
		"parameters error: its lists have more than %d entries":                      "参数错误：列表条目合计超过 %d 个",
		"parameters error: %s is %d bytes long: expected at most %d":                 "参数错误：%s 长 %d 字节：最多 %d 字节",
		"parameters error: %s is %d bytes long in all: expected at most %d":          "参数错误：%s 总长 %d 字节：最多 %d 字节",
		"parameters error: %s is not an id: expected letters, digits, -, _, . and :": "参数错误：%s 不是 ID：只能含字母、数字、-、_、. 和 :",
		"parameters error: %s holds a control character":                             "参数错误：%s 含有控制字符",
		"parameters error: %s is out of range: %d":                                   "参数错误：%s 超出范围：%d",
		"parameters error: %s is not a small integer":                                "参数错误：%s 不是较小的整数",
		"parameters error: %s is %.40q: expected sh, bat or ps1":                     "参数错误：%s 为 %.40q：应为 sh、bat 或 ps1",
		"parameters error: %s: %q is the address of another host than %s":            "参数错误：%s：%q 是另一台主机的地址，而不是 %s 的",
		"parameters error: %shosts and %sagent_id_list are missing: one of them must name an agent": "参数错误：缺少 %shosts 和 %sagent_id_list：" +
			"须用其中之一指定 agent",
		"parameters error: bk_biz_id is not positive":                        "参数错误：bk_biz_id 不是正数",
		"parameters error: bk_scope_type is %.40q: expected biz or biz_set":  "参数错误：bk_scope_type 为 %.40q：应为 biz 或 biz_set",
		"parameters error: bk_scope_id is %.40q: expected a positive number": "参数错误：bk_scope_id 为 %.40q：应为正数",
		"parameters error: page.start is out of range: expected 0 or more":   "参数错误：page.start 超出范围：应不小于 0",
		"parameters error: page.limit is out of range: expected 1 to %d":     "参数错误：page.limit 超出范围：应为 1 至 %d",
		"cannot %s: the disk of the server's database is full, since %s":     "服务无法处理该请求（%s）：自 %s 起，服务器数据库所在磁盘已满",
	}
}
