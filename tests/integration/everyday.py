#!/usr/bin/python3
"""Everyday questions over four small datasets, with the SQL that answers each, written by hand.

test_prompts.py asks them; scripts/train-nl learns from them as one more set:

  tests/integration/everyday.py RIDDLE DIRECTORY     writes the tables, batch.jsonl and questions.jsonl (with the rows that the SQL gives)
"""
import csv
import datetime
import json
import os
import random
import subprocess
import sys


def write(directory, name, header, rows):
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, name + ".csv")
    with open(path, "w", encoding="utf-8", newline="") as f:
        out = csv.writer(f)
        out.writerow(header)
        out.writerows(rows)
    return path


def staff(directory):
    r = random.Random(1)
    departments = [(1, "Engineering", 900000, 3), (2, "Sales", 450000, 1), (3, "Finance", 300000, 2), (4, "Support", 220000, 1),
                   (5, "Legal", 150000, 2)]
    first = "Ada Ben Cleo Dan Eva Finn Gus Hana Ivo Jana Kai Lena Milo Nora Omar Pia".split()
    last = "Adler Brandt Costa Dubois Egger Fischer Grant Hansen Ito Jansen Kumar Lopez".split()
    rows = []
    for i in range(240):
        d = r.choice([1, 1, 1, 2, 2, 3, 4, 4, 5])
        hired = datetime.date(2016, 1, 1) + datetime.timedelta(days=r.randrange(3100))
        rows.append([100 + i, r.choice(first) + " " + r.choice(last), d, r.choice(["Engineer", "Analyst", "Manager", "Assistant"]),
                     r.randrange(32, 150) * 1000, hired, r.choice(["F", "M"]), r.choice(["yes", "no"]),
                     r.choice([1, 2, 3, 4, 5, ""]), r.choice(["Berlin", "Madrid", "Oslo", "Lisbon"])])
    return [write(directory, "employees", ["employee_id", "name", "department_id", "job_title", "salary", "hire_date", "gender", "remote",
                                           "performance_score", "city"], rows),
            write(directory, "departments", ["department_id", "department_name", "budget", "floor"], departments)]


def clinic(directory):
    r = random.Random(2)
    rows = []
    for i in range(900):
        day = datetime.date(2023, 3, 1) + datetime.timedelta(days=r.randrange(500))
        reason = r.choice(["Checkup", "Vaccination", "Injury", "Allergy", "X-ray"])
        rows.append([f"V{i:04}", f"P{r.randrange(160):03}", day, r.choice(["Dr. Weber", "Dr. Singh", "Dr. Moreau", "Dr. Novak"]), reason,
                     round(r.uniform(20, 320), 2), r.randrange(5, 90), r.choice(["true", "false", "true"]), r.choice([0, 0, 1]),
                     r.choice(["scheduled", "done", "done", "done", "cancelled"])])
    return [write(directory, "visits", ["visit_id", "patient_id", "visit_date", "doctor", "reason", "fee", "duration_minutes", "insured",
                                        "follow_up", "status"], rows)]


def shop(directory):
    r = random.Random(3)
    countries = ["France", "Spain", "Japan", "Brazil", "Canada"]
    customers = [(i, f"Customer {i}", r.choice(countries), r.choice(["retail", "wholesale"]),
                  datetime.date(2020, 1, 1) + datetime.timedelta(days=r.randrange(900))) for i in range(1, 121)]
    rows = []
    for i in range(1500):
        day = datetime.date(2024, 1, 1) + datetime.timedelta(days=r.randrange(366))
        rows.append([i + 1, r.randrange(1, 121), r.choice(["Lamp", "Chair", "Desk", "Shelf", "Rug", "Mirror"]), r.randrange(1, 9),
                     round(r.uniform(5, 400), 2), day, r.choice(["web", "store", "phone"]), r.choice([0, 0, 0, 1])])
    return [write(directory, "customers", ["customer_id", "customer_name", "country", "segment", "signup_date"], customers),
            write(directory, "purchases", ["purchase_id", "customer_id", "product", "units", "unit_price", "purchase_date", "channel",
                                           "refunded"], rows)]


def machines(directory):
    r = random.Random(4)
    rows = []
    start = datetime.datetime(2025, 5, 1)
    for m in range(24):
        hall = ["Hall A", "Hall B", "Hall C"][m % 3]
        for h in range(24 * 7):
            state = r.choices(["running", "idle", "down"], [12, 4, 1 + m % 4])[0]
            alarm = int(r.random() < 0.04)
            rows.append([f"M{m:02}", start + datetime.timedelta(hours=h), hall, round(r.gauss(50 + 5 * (m % 3), 9), 2),
                         r.randrange(900, 3000), state, alarm, r.choice(["overheat", "jam", "sensor"]) if alarm else ""])
    return [write(directory, "machines", ["machine_id", "recorded_at", "hall", "power_kw", "speed_rpm", "state", "alarm_flag",
                                          "alarm_code"], rows)]


SETS = {"staff": staff, "clinic": clinic, "shop": shop, "machines": machines}

REVENUE = "units * unit_price"
SOLD = "purchases JOIN customers USING (customer_id)"
WORKS = "employees e JOIN departments d USING (department_id)"

QUESTIONS = [
    # ---- staff ----
    ("staff", "how many employees do we have?", "SELECT count(*) FROM employees"),
    ("staff", "what is the average salary?", "SELECT avg(salary) FROM employees"),
    ("staff", "median salary by job title", "SELECT job_title, median(salary) FROM employees GROUP BY 1"),
    ("staff", "highest and lowest salary", "SELECT max(salary), min(salary) FROM employees"),
    ("staff", "how many employees per city", "SELECT city, count(*) FROM employees GROUP BY 1"),
    ("staff", "employees by city", "SELECT city, count(*) FROM employees GROUP BY 1"),
    ("staff", "average salary by city and gender", "SELECT city, gender, avg(salary) FROM employees GROUP BY 1, 2"),
    ("staff", "what share of employees work remote?", "SELECT avg(CASE WHEN remote = 'yes' THEN 1 ELSE 0 END) FROM employees"),
    ("staff", "remote rate by city", "SELECT city, avg(CASE WHEN remote = 'yes' THEN 1 ELSE 0 END) FROM employees GROUP BY 1"),
    ("staff", "what percentage of employees are women?",
     "SELECT 100.0 * count(*) FILTER (gender = 'F') / count(*) FROM employees"),
    ("staff", "percentage of employees by job title",
     "SELECT job_title, 100.0 * count(*) / (SELECT count(*) FROM employees) FROM employees GROUP BY 1"),
    ("staff", "who earns the most?", "SELECT name, salary FROM employees ORDER BY salary DESC LIMIT 1"),
    ("staff", "top 5 employees by salary", "SELECT name, salary FROM employees ORDER BY salary DESC LIMIT 5"),
    ("staff", "the 3 lowest paid employees", "SELECT name, salary FROM employees ORDER BY salary LIMIT 3"),
    ("staff", "how many employees earn more than 100000?", "SELECT count(*) FROM employees WHERE salary > 100000"),
    ("staff", "how many analysts are in Berlin?", "SELECT count(*) FROM employees WHERE job_title = 'Analyst' AND city = 'Berlin'"),
    ("staff", "how many employees are in Oslo or Lisbon?", "SELECT count(*) FROM employees WHERE city IN ('Oslo', 'Lisbon')"),
    ("staff", "how many employees are not in Berlin?", "SELECT count(*) FROM employees WHERE city != 'Berlin'"),
    ("staff", "how many employees were hired in 2019?", "SELECT count(*) FROM employees WHERE year(hire_date) = 2019"),
    ("staff", "how many people were hired since 2022?", "SELECT count(*) FROM employees WHERE hire_date >= '2022-01-01'"),
    ("staff", "how many employees were hired before March 2018?", "SELECT count(*) FROM employees WHERE hire_date < '2018-03-01'"),
    ("staff", "hires per year", "SELECT date_trunc('year', hire_date), count(*) FROM employees GROUP BY 1"),
    ("staff", "how many employees have no performance score?", "SELECT count(*) FROM employees WHERE performance_score IS NULL"),
    ("staff", "how many different job titles are there?", "SELECT count(DISTINCT job_title) FROM employees"),
    ("staff", "list the cities", "SELECT DISTINCT city FROM employees"),
    ("staff", "average performance score of managers", "SELECT avg(performance_score) FROM employees WHERE job_title = 'Manager'"),
    ("staff", "average salary by department name", f"SELECT department_name, avg(salary) FROM {WORKS} GROUP BY 1"),
    ("staff", "how many employees are there in each department?",
     f"SELECT department_name, count(*) FROM {WORKS} GROUP BY 1"),
    ("staff", "total salary of the Engineering department", f"SELECT sum(salary) FROM {WORKS} WHERE department_name = 'Engineering'"),
    ("staff", "how many employees work in Sales?", f"SELECT count(*) FROM {WORKS} WHERE department_name = 'Sales'"),
    ("staff", "which department has the largest budget?", "SELECT department_name FROM departments ORDER BY budget DESC LIMIT 1"),
    ("staff", "total budget", "SELECT sum(budget) FROM departments"),
    ("staff", "which departments are on floor 1?", "SELECT department_name FROM departments WHERE floor = 1"),
    ("staff", "which city has the most employees?", "SELECT city FROM employees GROUP BY 1 ORDER BY count(*) DESC LIMIT 1"),
    ("staff", "which job title has the highest average salary?",
     "SELECT job_title FROM employees GROUP BY 1 ORDER BY avg(salary) DESC LIMIT 1"),
    ("staff", "employees whose name starts with Ada", "SELECT name FROM employees WHERE name LIKE 'Ada%'"),
    ("staff", "how many employees have a salary between 50000 and 60000?",
     "SELECT count(*) FROM employees WHERE salary BETWEEN 50000 AND 60000"),
    ("staff", "distribution of performance score", None),
    # ---- clinic ----
    ("clinic", "how many visits were there?", "SELECT count(*) FROM visits"),
    ("clinic", "total fees per doctor", "SELECT doctor, sum(fee) FROM visits GROUP BY 1"),
    ("clinic", "fees by month", "SELECT date_trunc('month', visit_date), sum(fee) FROM visits GROUP BY 1"),
    ("clinic", "how did fees develop over time?", "SELECT date_trunc('month', visit_date), sum(fee) FROM visits GROUP BY 1"),
    ("clinic", "number of visits per quarter", "SELECT date_trunc('quarter', visit_date), count(*) FROM visits GROUP BY 1"),
    ("clinic", "visits per week", "SELECT date_trunc('week', visit_date), count(*) FROM visits GROUP BY 1"),
    ("clinic", "visits by weekday", "SELECT dayname(visit_date), count(*) FROM visits GROUP BY 1"),
    ("clinic", "average duration by reason", "SELECT reason, avg(duration_minutes) FROM visits GROUP BY 1"),
    ("clinic", "how does duration vary by doctor?", "SELECT doctor, avg(duration_minutes) FROM visits GROUP BY 1"),
    ("clinic", "what is the insured rate?", "SELECT avg(CAST(insured AS INTEGER)) FROM visits"),
    ("clinic", "follow up rate per doctor", "SELECT doctor, avg(follow_up) FROM visits GROUP BY 1"),
    ("clinic", "cancellation rate by doctor", None),
    ("clinic", "what share of visits are vaccinations?", "SELECT 100.0 * count(*) FILTER (reason = 'Vaccination') / count(*) FROM visits"),
    ("clinic", "what share of fees comes from injuries?", "SELECT 100.0 * sum(fee) FILTER (reason = 'Injury') / sum(fee) FROM visits"),
    ("clinic", "share of fees by reason", "SELECT reason, 100.0 * sum(fee) / (SELECT sum(fee) FROM visits) FROM visits GROUP BY 1"),
    ("clinic", "how many patients did we see?", "SELECT count(DISTINCT patient_id) FROM visits"),
    ("clinic", "how many different patients were there in 2024?",
     "SELECT count(DISTINCT patient_id) FROM visits WHERE year(visit_date) = 2024"),
    ("clinic", "which patient paid the most?", "SELECT patient_id FROM visits GROUP BY 1 ORDER BY sum(fee) DESC LIMIT 1"),
    ("clinic", "which patients paid the most?",
     "SELECT patient_id, sum(fee) FROM visits GROUP BY 1 ORDER BY sum(fee) DESC LIMIT 10"),
    ("clinic", "most common reason", "SELECT reason FROM visits GROUP BY 1 ORDER BY count(*) DESC LIMIT 1"),
    ("clinic", "top 3 doctors by number of visits", "SELECT doctor, count(*) FROM visits GROUP BY 1 ORDER BY 2 DESC LIMIT 3"),
    ("clinic", "total fee in March 2024", "SELECT sum(fee) FROM visits WHERE visit_date BETWEEN '2024-03-01' AND '2024-03-31'"),
    ("clinic", "total fee in March", "SELECT sum(fee) FROM visits WHERE visit_date BETWEEN '2024-03-01' AND '2024-03-31'"),
    ("clinic", "visits in the last 30 days",
     "SELECT * FROM visits WHERE visit_date > (SELECT max(visit_date) FROM visits) - INTERVAL 30 DAY"),
    ("clinic", "how many visits in the last 30 days?",
     "SELECT count(*) FROM visits WHERE visit_date > (SELECT max(visit_date) FROM visits) - INTERVAL 30 DAY"),
    ("clinic", "which visits are scheduled?", "SELECT * FROM visits WHERE status = 'scheduled'"),
    ("clinic", "show me the cancelled visits of Dr. Weber", "SELECT * FROM visits WHERE status = 'cancelled' AND doctor = 'Dr. Weber'"),
    ("clinic", "the 5 most expensive visits", "SELECT * FROM visits ORDER BY fee DESC LIMIT 5"),
    ("clinic", "how many visits took longer than 60 minutes?", "SELECT count(*) FROM visits WHERE duration_minutes > 60"),
    ("clinic", "average fee of insured visits", "SELECT avg(fee) FROM visits WHERE insured"),
    ("clinic", "visits by doctor and status", "SELECT doctor, status, count(*) FROM visits GROUP BY 1, 2"),
    ("clinic", "how much did Dr. Novak earn?", "SELECT sum(fee) FROM visits WHERE doctor = 'Dr. Novak'"),
    ("clinic", "how many visits were for an allergy or an injury?",
     "SELECT count(*) FROM visits WHERE reason IN ('Allergy', 'Injury')"),
    ("clinic", "average fee without vaccinations", "SELECT avg(fee) FROM visits WHERE reason != 'Vaccination'"),
    ("clinic", "breakdown of visits by status", "SELECT status, count(*) FROM visits GROUP BY 1"),
    ("clinic", "compare the fees of Dr. Weber and Dr. Singh",
     "SELECT doctor, sum(fee) FROM visits WHERE doctor IN ('Dr. Weber', 'Dr. Singh') GROUP BY 1"),
    # ---- shop ----
    ("shop", "what is our total revenue?", f"SELECT sum({REVENUE}) FROM purchases"),
    ("shop", "revenue by product", f"SELECT product, sum({REVENUE}) FROM purchases GROUP BY 1"),
    ("shop", "revenue by country", f"SELECT country, sum({REVENUE}) FROM {SOLD} GROUP BY 1"),
    ("shop", "monthly revenue", f"SELECT date_trunc('month', purchase_date), sum({REVENUE}) FROM purchases GROUP BY 1"),
    ("shop", "revenue trend", f"SELECT date_trunc('month', purchase_date), sum({REVENUE}) FROM purchases GROUP BY 1"),
    ("shop", "top 3 products by revenue", f"SELECT product, sum({REVENUE}) FROM purchases GROUP BY 1 ORDER BY 2 DESC LIMIT 3"),
    ("shop", "top 10 customers by revenue",
     f"SELECT customer_name, sum({REVENUE}) FROM {SOLD} GROUP BY customer_id, 1 ORDER BY 2 DESC LIMIT 10"),
    ("shop", "which customers spent the most?",
     f"SELECT customer_name, sum({REVENUE}) FROM {SOLD} GROUP BY customer_id, 1 ORDER BY 2 DESC LIMIT 10"),
    ("shop", "refund rate by product", "SELECT product, avg(refunded) FROM purchases GROUP BY 1"),
    ("shop", "refund rate by segment", f"SELECT segment, avg(refunded) FROM {SOLD} GROUP BY 1"),
    ("shop", "how many purchases were refunded?", "SELECT count(*) FROM purchases WHERE refunded = 1"),
    ("shop", "how many units of lamps were sold?", "SELECT sum(units) FROM purchases WHERE product = 'Lamp'"),
    ("shop", "units sold per channel", "SELECT channel, sum(units) FROM purchases GROUP BY 1"),
    ("shop", "average unit price by product", "SELECT product, avg(unit_price) FROM purchases GROUP BY 1"),
    ("shop", "how many customers do we have in Japan?", "SELECT count(*) FROM customers WHERE country = 'Japan'"),
    ("shop", "customers by country", "SELECT country, count(*) FROM customers GROUP BY 1"),
    ("shop", "number of purchases by country", f"SELECT country, count(*) FROM {SOLD} GROUP BY 1"),
    ("shop", "how many customers bought a desk?",
     "SELECT count(DISTINCT customer_id) FROM purchases WHERE product = 'Desk'"),
    ("shop", "purchases per month by channel",
     "SELECT date_trunc('month', purchase_date), channel, count(*) FROM purchases GROUP BY 1, 2"),
    ("shop", "what percentage of purchases came through the web?",
     "SELECT 100.0 * count(*) FILTER (channel = 'web') / count(*) FROM purchases"),
    ("shop", "share of purchases by channel",
     "SELECT channel, 100.0 * count(*) / (SELECT count(*) FROM purchases) FROM purchases GROUP BY 1"),
    ("shop", "revenue in France", f"SELECT sum({REVENUE}) FROM {SOLD} WHERE country = 'France'"),
    ("shop", "how many purchases did wholesale customers make?", f"SELECT count(*) FROM {SOLD} WHERE segment = 'wholesale'"),
    ("shop", "most popular product", "SELECT product FROM purchases GROUP BY 1 ORDER BY count(*) DESC LIMIT 1"),
    ("shop", "cheapest unit price", "SELECT min(unit_price) FROM purchases"),
    ("shop", "which customers are from Brazil?", "SELECT customer_name FROM customers WHERE country = 'Brazil'"),
    ("shop", "newest customer", "SELECT customer_name FROM customers ORDER BY signup_date DESC LIMIT 1"),
    ("shop", "how many customers signed up in 2021?", "SELECT count(*) FROM customers WHERE year(signup_date) = 2021"),
    ("shop", "how many purchases on Mondays?", "SELECT count(*) FROM purchases WHERE dayname(purchase_date) = 'Monday'"),
    ("shop", "revenue per weekday", f"SELECT dayname(purchase_date), sum({REVENUE}) FROM purchases GROUP BY 1"),
    ("shop", "average revenue per purchase by country", None),
    # ---- machines ----
    ("machines", "average power by hall", "SELECT hall, avg(power_kw) FROM machines GROUP BY 1"),
    ("machines", "power by hall", "SELECT hall, avg(power_kw) FROM machines GROUP BY 1"),
    ("machines", "average power by hall and day", "SELECT hall, CAST(recorded_at AS DATE), avg(power_kw) FROM machines GROUP BY 1, 2"),
    ("machines", "how many machines are there?", "SELECT count(DISTINCT machine_id) FROM machines"),
    ("machines", "how many alarms were there per hall?", "SELECT hall, count(*) FROM machines WHERE alarm_flag = 1 GROUP BY 1"),
    ("machines", "how many alarms in the last 24 hours?",
     "SELECT count(*) FROM machines WHERE alarm_flag = 1 AND recorded_at > (SELECT max(recorded_at) FROM machines) - INTERVAL 24 HOUR"),
    ("machines", "alarm rate by hall", "SELECT hall, avg(alarm_flag) FROM machines GROUP BY 1"),
    ("machines", "most common alarm codes",
     "SELECT alarm_code, count(*) FROM machines WHERE alarm_code IS NOT NULL GROUP BY 1 ORDER BY 2 DESC LIMIT 10"),
    ("machines", "which machines were down the longest?",
     "SELECT machine_id, count(*) FROM machines WHERE state = 'down' GROUP BY 1 ORDER BY 2 DESC LIMIT 10"),
    ("machines", "which machine was idle the longest?",
     "SELECT machine_id FROM machines WHERE state = 'idle' GROUP BY 1 ORDER BY count(*) DESC LIMIT 1"),
    ("machines", "which machines have power above 80?", "SELECT DISTINCT machine_id FROM machines WHERE power_kw > 80"),
    ("machines", "average speed during working hours",
     "SELECT avg(speed_rpm) FROM machines WHERE hour(recorded_at) BETWEEN 9 AND 16 AND dayofweek(recorded_at) BETWEEN 1 AND 5"),
    ("machines", "average power by hour of the day", "SELECT hour(recorded_at), avg(power_kw) FROM machines GROUP BY 1"),
    ("machines", "maximum speed per machine", "SELECT machine_id, max(speed_rpm) FROM machines GROUP BY 1"),
    ("machines", "which hall uses the most power?", "SELECT hall FROM machines GROUP BY 1 ORDER BY avg(power_kw) DESC LIMIT 1"),
    ("machines", "how many readings have state down?", "SELECT count(*) FROM machines WHERE state = 'down'"),
    ("machines", "number of readings by state", "SELECT state, count(*) FROM machines GROUP BY 1"),
    ("machines", "standard deviation of power", "SELECT stddev(power_kw) FROM machines"),
    ("machines", "what percentage of readings are idle?",
     "SELECT 100.0 * count(*) FILTER (state = 'idle') / count(*) FROM machines"),
    ("machines", "daily alarms", "SELECT CAST(recorded_at AS DATE), count(*) FROM machines WHERE alarm_flag = 1 GROUP BY 1"),
    ("machines", "when was the last alarm?", "SELECT max(recorded_at) FROM machines WHERE alarm_flag = 1"),
    ("machines", "list the different alarm codes", "SELECT DISTINCT alarm_code FROM machines"),
]


def main(riddle, directory):
    files = {name: make(os.path.join(directory, name)) for name, make in SETS.items()}
    with open(os.path.join(directory, "batch.jsonl"), "w", encoding="utf-8") as batch, \
            open(os.path.join(directory, "questions.jsonl"), "w", encoding="utf-8") as known:
        for i, (name, question, sql) in enumerate(QUESTIONS):
            gold = None
            if sql:
                done = subprocess.run([riddle, "run", "--sql", sql, "--json", *files[name]], capture_output=True, text=True)
                answer = json.loads(done.stdout)
                gold = answer.get("rows") or (answer.get("result") or {}).get("rows")
                if gold is None:
                    raise SystemExit(f"{question}: {done.stdout}{done.stderr}")
            # two groups for each dataset would let it be learned from itself: one table, one fold
            key = {"id": f"everyday-{i}", "question": question}
            batch.write(json.dumps({**key, "files": files[name]}) + "\n")
            known.write(json.dumps({**key, "db": name, "gold_rows": gold, "ordered": False}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
