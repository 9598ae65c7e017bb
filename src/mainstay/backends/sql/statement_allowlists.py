"""SQL dialects: the allowlists of keywords, types and functions that a statement may contain.

Statements are generated from the AST, and every bare word of them must be on one of these lists. So nothing else can
run: no function that reads files, sleeps or opens connections, and no unforeseen statement.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

DialectName = Literal["sqlite", "postgres", "mysql"]


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.upper().split())


class SqlDialect(msgspec.Struct, frozen=True, kw_only=True):
    """Allowlists, tokens and quoting of one database."""

    name: DialectName
    title: str  # for display
    keywords: frozenset[str]  # keywords of a query
    types: frozenset[str]
    functions: frozenset[str]
    table_functions: frozenset[str]  # functions that may stand in place of a table
    token_pattern: re.Pattern[str]
    identifier_quote: str  # around an identifier
    identifier_bytes_max: int  # longer identifiers are truncated by some databases and would match another name


_SELECT_KEYWORDS = _word_set(
    "select distinct all as from where group by having order asc desc nulls first last limit offset with recursive "
    "union intersect except join inner left right full outer cross natural on using and or not in is null like escape "
    "between exists case when then else end cast true false over partition range rows groups unbounded preceding "
    "following current row exclude ties no others window filter interval values collate materialized"
)
_TIME_UNITS = _word_set(
    "microsecond microseconds millisecond milliseconds second seconds minute minutes hour hours day days week weeks "
    "month months quarter year years decade century millennium epoch dow doy isodow isoyear timezone timezone_hour "
    "timezone_minute"
)
CHANGE_KEYWORDS = _word_set("insert into update delete set default conflict do nothing duplicate key constraint values")

# --- types ---------------------------------------------------------------------------------------

_COMMON_TYPES = _word_set(
    "int integer smallint bigint tinyint mediumint decimal numeric real float double precision boolean bool char "
    "character varying varchar text date time timestamp datetime blob json binary varbinary unsigned signed year nchar "
    "zone without with"
)
_POSTGRES_TYPES = _word_set(
    "timestamptz timetz jsonb uuid bytea inet cidr macaddr point money tsvector tsquery int2 int4 int8 float4 float8 "
    "bpchar int4range int8range numrange tsrange tstzrange daterange bit varbit serial name xml citext interval"
)

# --- functions: none has an effect, waits, or reads beyond its arguments ----------------------------

_COMMON_FUNCTIONS = _word_set(
    "abs acos asin atan atan2 avg ceil ceiling coalesce concat concat_ws cos cot count cume_dist current_date "
    "current_time current_timestamp degrees dense_rank exp extract first_value floor greatest group_concat lag "
    "last_value lead least left length ln log log10 log2 lower lpad ltrim max min mod nth_value ntile nullif "
    "octet_length percent_rank pi position pow power radians random rank replace reverse right round row_number rpad "
    "rtrim sign sin sqrt string_agg substr substring sum tan trim trunc upper char_length character_length ascii "
    "repeat translate initcap cosh sinh tanh acosh asinh atanh cbrt"
)
_SQLITE_FUNCTIONS = _word_set(
    "changes char date datetime format glob hex if ifnull iif instr json json_array json_array_length json_extract "
    "json_group_array json_group_object json_insert json_object json_patch json_quote json_remove "
    "json_replace json_set json_type json_valid jsonb jsonb_array jsonb_extract jsonb_group_array jsonb_group_object "
    "jsonb_object julianday like likelihood likely median percentile percentile_cont percentile_disc printf quote "
    "randomblob strftime time timediff total typeof unhex unicode unistr unixepoch unlikely zeroblob bm25 highlight "
    "snippet match json_error_position"
) - _word_set("changes")
_POSTGRES_FUNCTIONS = _word_set(
    "age array_agg array_append array_cat array_dims array_fill array_length array_lower array_ndims array_position "
    "array_positions array_prepend array_remove array_replace array_to_json array_to_string array_upper any_value "
    "any all array row bit_and bit_length bit_or bit_xor bool_and bool_or broadcast btrim cardinality chr "
    "clock_timestamp convert_from convert_to corr covar_pop covar_samp date_add date_bin date_part date_subtract "
    "date_trunc decode div encode every factorial format gamma gcd gen_random_uuid generate_series generate_subscripts "
    "get_bit get_byte grouping host hostmask inet_merge isempty isfinite json_agg json_array_elements "
    "json_array_elements_text json_array_length json_build_array json_build_object json_each json_each_text "
    "json_extract_path json_extract_path_text json_object json_object_agg json_object_keys json_strip_nulls "
    "json_typeof jsonb_agg jsonb_array_elements jsonb_array_elements_text jsonb_array_length jsonb_build_array "
    "jsonb_build_object jsonb_each jsonb_each_text jsonb_extract_path jsonb_extract_path_text jsonb_insert "
    "jsonb_object jsonb_object_agg jsonb_object_keys jsonb_path_exists jsonb_path_match jsonb_path_query "
    "jsonb_path_query_array jsonb_path_query_first jsonb_pretty jsonb_set jsonb_strip_nulls jsonb_typeof justify_days "
    "justify_hours justify_interval lcm localtime localtimestamp lower_inc lower_inf make_date make_interval make_time "
    "make_timestamp make_timestamptz masklen md5 min_scale mode multirange netmask network normalize now num_nonnulls "
    "num_nulls numnode overlay parse_ident percentile_cont percentile_disc phraseto_tsquery plainto_tsquery "
    "quote_ident quote_literal quote_nullable range_agg range_intersect_agg range_merge regexp_count regexp_instr "
    "regexp_like regexp_match regexp_matches regexp_replace regexp_split_to_array regexp_split_to_table regexp_substr "
    "regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy row_to_json scale "
    "set_bit set_byte setseed sha224 sha256 sha384 sha512 split_part starts_with statement_timestamp stddev "
    "stddev_pop stddev_samp string_to_array string_to_table strip strpos timeofday to_ascii to_char to_date to_hex "
    "to_json to_jsonb to_number to_timestamp to_tsquery to_tsvector transaction_timestamp trim_array trim_scale "
    "ts_headline ts_rank ts_rank_cd tsvector_to_array unnest upper_inc upper_inf var_pop var_samp variance "
    "websearch_to_tsquery width_bucket pg_typeof some date timestamp erf"
) - _word_set("setseed")
_MYSQL_FUNCTIONS = _word_set(
    "adddate addtime any_value bin bit_and bit_count bit_length bit_or bit_xor char conv convert convert_tz crc32 "
    "curdate curtime date date_add date_format date_sub datediff day dayname dayofmonth dayofweek dayofyear elt "
    "export_set field find_in_set format from_base64 from_days from_unixtime hex hour if ifnull inet6_aton inet6_ntoa "
    "inet_aton inet_ntoa insert instr interval isnull is_ipv4 is_ipv6 json_array json_array_append json_array_insert "
    "json_arrayagg json_compact json_contains json_contains_path json_depth json_detailed json_exists json_extract "
    "json_insert json_keys json_length json_merge_patch json_merge_preserve json_object json_objectagg json_overlaps "
    "json_pretty json_query json_quote json_remove json_replace json_search json_set json_storage_size json_type "
    "json_unquote json_valid json_value last_day lcase localtime localtimestamp locate make_set makedate maketime md5 "
    "microsecond mid minute month monthname now oct ord period_add period_diff quarter quote rand regexp_instr "
    "regexp_like regexp_replace regexp_substr sec_to_time second sha sha1 sha2 soundex space std stddev stddev_pop "
    "stddev_samp str_to_date strcmp subdate substring_index subtime sysdate time time_format time_to_sec timediff "
    "timestamp timestampadd timestampdiff to_base64 to_days to_seconds truncate ucase unhex unix_timestamp utc_date "
    "utc_time utc_timestamp uuid uuid_to_bin bin_to_uuid values var_pop var_samp variance week weekday weekofyear "
    "weight_string year yearweek match against median percentile_cont row grouping date_diff"
)

# --- dialects --------------------------------------------------------------------------------------

_NUMBER_TOKEN = r"(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![A-Za-z0-9_]))"
_WORD_TOKEN = r"(?P<word>[A-Za-z_][A-Za-z0-9_]*)"
_SPACE_TOKEN = r"(?P<space>[ ]+)"


def _compile_token_pattern(strings: str, names: str, signs: str) -> re.Pattern[str]:
    return re.compile(
        f"(?P<string>{strings})|(?P<name>{names})|{_NUMBER_TOKEN}|{_WORD_TOKEN}|(?P<sign>{signs})|{_SPACE_TOKEN}"
    )


_DOUBLE_QUOTED_NAME = r'"(?:[^"]|"")+"'
SQLITE = SqlDialect(
    name="sqlite",
    title="SQLite",
    keywords=_SELECT_KEYWORDS | _word_set("glob match isnull notnull nocase binary rtrim"),
    types=_COMMON_TYPES,
    functions=_COMMON_FUNCTIONS | _SQLITE_FUNCTIONS,
    table_functions=_word_set("json_each json_tree"),
    token_pattern=_compile_token_pattern(r"(?:[xX])?'(?:[^']|'')*'", _DOUBLE_QUOTED_NAME, r"[-+*/<>=!%&|~.,()]"),
    identifier_quote='"',
    identifier_bytes_max=1000,
)
POSTGRES = SqlDialect(
    name="postgres",
    title="PostgreSQL",
    keywords=_SELECT_KEYWORDS
    | _TIME_UNITS
    | _word_set(
        "lateral ilike similar to any some array symmetric within only grouping sets rollup cube for at time zone "
        "unknown leading trailing both fetch next tablesample system bernoulli repeatable ordinality placing"
    ),
    types=_COMMON_TYPES | _POSTGRES_TYPES,
    functions=_COMMON_FUNCTIONS | _POSTGRES_FUNCTIONS,
    table_functions=_word_set(
        "generate_series generate_subscripts unnest json_array_elements json_array_elements_text json_each "
        "json_each_text json_object_keys jsonb_array_elements jsonb_array_elements_text jsonb_each jsonb_each_text "
        "jsonb_object_keys jsonb_path_query regexp_matches regexp_split_to_table string_to_table"
    ),
    token_pattern=_compile_token_pattern(
        r"[eE]'(?:[^'\\]|\\.|'')*'|[xXbB]?'(?:[^']|'')*'",
        _DOUBLE_QUOTED_NAME,
        r"[-+*/<>=!%&|~^#@?.,()\[\]]|::|:(?=[^=:])",
    ),
    identifier_quote='"',
    identifier_bytes_max=63,
)
MYSQL = SqlDialect(
    name="mysql",
    title="MySQL",
    keywords=_SELECT_KEYWORDS
    | _TIME_UNITS
    | _word_set(
        "lateral regexp rlike div mod xor binary separator rollup dual force ignore use index straight_join sounds "
        "member of against mode boolean language query expansion charset character set leading trailing both for "
        "day_hour day_minute day_second hour_minute hour_second minute_second year_month unknown utf8mb4 "
        "utf8 array columns path nested "
        "utf8mb4_bin utf8mb4_general_ci utf8mb4_unicode_ci utf8mb4_0900_ai_ci"
    ),
    types=_COMMON_TYPES | _word_set("longtext mediumtext tinytext longblob mediumblob tinyblob"),
    functions=_COMMON_FUNCTIONS | _MYSQL_FUNCTIONS,
    table_functions=_word_set("json_table"),
    token_pattern=_compile_token_pattern(r"[xXbB]?'(?:[^'\\]|\\.|'')*'", r"`(?:[^`]|``)+`", r"[-+*/<>=!%&|~^.,()]"),
    identifier_quote="`",
    identifier_bytes_max=256,
)
